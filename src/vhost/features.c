// SPDX-License-Identifier: Apache-2.0
#include "vhost/features.h"

#include <stdio.h>
#include <string.h>

const struct virtio_feature virtio_features[] = {
#define X(bit, name, offered, text) { bit, #name, offered, text },
	VIRTIO_FEATURES(X)
#undef X
};

const unsigned virtio_features_count = ARRAY_SIZE(virtio_features);

uint64_t features_offered(void)
{
	uint64_t bits = 0;

	for (unsigned i = 0; i < virtio_features_count; i++) {
		if (virtio_features[i].offered)
			bits |= BIT(virtio_features[i].bit);
	}
	return bits;
}

static const char *feature_name(unsigned bit)
{
	for (unsigned i = 0; i < virtio_features_count; i++) {
		if (virtio_features[i].bit == bit)
			return virtio_features[i].name;
	}
	return NULL;
}

void features_text(uint64_t features, char *text, size_t size)
{
	size_t used = 0;

	if (size)
		text[0] = '\0';
	for (unsigned bit = 0; bit < 64 && used < size; bit++) {
		const char *name = feature_name(bit), *comma = used ? "," : "";

		if (!(features & BIT(bit)))
			continue;
		if (name)
			used += (size_t)snprintf(text + used, size - used, "%s%s", comma, name);
		else
			used += (size_t)snprintf(text + used, size - used, "%sbit%u", comma, bit);
	}
}
