/* calls that cost: port 2's call eventfd is watched N times; how do ports 0,1 fare */
#include "watch.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/clock.h"
static struct watch w;
static void attack(void **state)
{
	unsigned n=atoi(getenv("N")); int ep=epoll_create1(0); struct driver *d; uint64_t end;
	struct rlimit l; getrlimit(RLIMIT_NOFILE,&l); l.rlim_cur=l.rlim_max; setrlimit(RLIMIT_NOFILE,&l);
	watch_begin(&w,*state,NULL);
	for (int k=0;k<2;k++){
	if(k==1){ d=rig_open(*state,2,NULL); for(unsigned i=0;i<n;i++){int f=dup(d->ring[0].call);struct epoll_event e={.events=EPOLLIN|EPOLLET};if(f<0||epoll_ctl(ep,EPOLL_CTL_ADD,f,&e)){n=i;break;}} ring_calls_on(&d->ring[0]); }
	w.worst_ns=0; unsigned g=w.got[0]+w.got[1]; uint64_t b=clock_ns(); end=b+2000000000ull; unsigned calls=0;
	while(clock_ns()<end){ watch_turn(&w);
		if(k==1){ if(ring_room(&w.d[0]->ring[1])>8){ send_one(w.d[0],7,2,60,0);} swallow(d); ring_calls_on(&d->ring[0]); calls++; }
	}
	fprintf(stderr,"# %s n=%u: %u frames in %.2f s worst %.1f ms turns %u\n",k?"attacked":"quiet",k?n:0,w.got[0]+w.got[1]-g,(clock_ns()-b)/1e9,w.worst_ns/1e6,calls);
	}
	driver_close(d);
	driver_close(w.d[0]);driver_close(w.d[1]);
}
int main(void){ const struct CMUnitTest tests[]={cmocka_unit_test_setup_teardown(attack,rig_setup,rig_teardown)}; return cmocka_run_group_tests(tests,NULL,NULL);}
