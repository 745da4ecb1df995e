package main

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	annotationPrefix = "nvidia.com/container."
	requestSuffix    = ".gpu-memory.request"
	limitSuffix      = ".gpu-memory.limit"
	devicesSuffix    = ".gpus.devices"
	modeSuffix       = ".gpu-compute.mode"
	mebibyte         = 1 << 20
)

// fraction is what one container asked for.
type fraction struct {
	requestMiB, limitMiB int64
	devices              string
	smSharing            bool
}

// fractionOf reads a container's share from the annotations of its pod; nil means that it asked for none.
func fractionOf(annotations map[string]string, container string) (*fraction, error) {
	key := annotationPrefix + container
	request, hasRequest := annotations[key+requestSuffix]
	limit, hasLimit := annotations[key+limitSuffix]
	if !hasRequest && !hasLimit {
		return nil, nil
	}
	if !hasRequest {
		request = limit
	}
	if !hasLimit {
		limit = request
	}
	requestMiB, err := wholeMiB(key+requestSuffix, request)
	if err != nil {
		return nil, err
	}
	limitMiB, err := wholeMiB(key+limitSuffix, limit)
	if err != nil {
		return nil, err
	}
	if requestMiB > limitMiB {
		return nil, fmt.Errorf("%s: request of %d MiB is above the limit of %d MiB", key, requestMiB, limitMiB)
	}
	smSharing, err := sharesMultiprocessors(key+modeSuffix, annotations)
	if err != nil {
		return nil, err
	}
	return &fraction{requestMiB, limitMiB, strings.TrimSpace(annotations[key+devicesSuffix]), smSharing}, nil
}

func wholeMiB(key, text string) (int64, error) {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a quantity: %w", key, text, err)
	}
	if quantity.Value() < mebibyte {
		return 0, fmt.Errorf("%s: %q is less than 1Mi", key, text)
	}
	return (quantity.Value() + mebibyte - 1) / mebibyte, nil
}

func sharesMultiprocessors(key string, annotations map[string]string) (bool, error) {
	mode, present := annotations[key]
	if !present {
		return false, nil
	}
	switch strings.TrimSpace(mode) {
	case "time-slicing":
		return false, nil
	case "sm-sharing":
		return true, nil
	}
	return false, fmt.Errorf("%s: %q is no mode; accepted: time-slicing, sm-sharing", key, mode)
}

// environment lists the variables the container must see, in the order they are injected.
func (f *fraction) environment(mount pipe) [][2]string {
	env := [][2]string{
		{"NVIDIA_GPU_MEMORY_REQUEST", strconv.FormatInt(f.requestMiB, 10)},
		{"NVIDIA_GPU_MEMORY_LIMIT", strconv.FormatInt(f.limitMiB, 10)},
		{"CUDA_MPS_PIPE_DIRECTORY", mount.destination},
	}
	if f.devices != "" {
		env = append(env, [2]string{"NVIDIA_VISIBLE_DEVICES", f.devices})
	}
	return env
}
