package main

import (
	"fmt"

	"github.com/containerd/nri/pkg/api"
)

const (
	serviceVariables = 25
	volumes          = 4
)

// kind tells whether a container asks for a share of a GPU.
type kind string

const (
	annotated kind = "annotated"
	untouched kind = "untouched"
)

// world makes pods and containers of the size a kubelet makes them: about 4.6 kB for one request.
type world struct {
	serial int
}

func (w *world) createRequest(k kind) *api.CreateContainerRequest {
	w.serial++
	return &api.CreateContainerRequest{Pod: pod(w.serial, k), Container: container(w.serial, k)}
}

// running lists containers, every second one with a share, for a plugin that connects late.
func running(count int) ([]*api.PodSandbox, []*api.Container) {
	pods, containers := []*api.PodSandbox{}, []*api.Container{}
	for i := range count {
		k := untouched
		if i%2 == 0 {
			k = annotated
		}
		// Numbers apart from those of the containers that rounds create.
		serial := 1_000_000 + i
		pods, containers = append(pods, pod(serial, k)), append(containers, container(serial, k))
		containers[i].State = api.ContainerState_CONTAINER_RUNNING
	}
	return pods, containers
}

func hexID(prefix string, serial int) string {
	return fmt.Sprintf("%s%062x", prefix, serial)
}

func uid(serial int) string {
	return fmt.Sprintf("5c9a8d1e-7f43-4b60-9f1e-%012x", serial)
}

func kubeletLabels(serial int) map[string]string {
	return map[string]string{
		"io.kubernetes.pod.name":      fmt.Sprintf("trainer-%d", serial),
		"io.kubernetes.pod.namespace": "research",
		"io.kubernetes.pod.uid":       uid(serial),
	}
}

func pod(serial int, k kind) *api.PodSandbox {
	labels := kubeletLabels(serial)
	labels["app"], labels["io.cri-containerd.kind"] = "trainer", "sandbox"
	annotations := map[string]string{
		"io.kubernetes.cri.container-type":    "sandbox",
		"io.kubernetes.cri.sandbox-id":        hexID("5a", serial),
		"io.kubernetes.cri.sandbox-name":      fmt.Sprintf("trainer-%d", serial),
		"io.kubernetes.cri.sandbox-namespace": "research",
		"io.kubernetes.cri.sandbox-uid":       uid(serial),
		"kubernetes.io/config.source":         "api",
	}
	if k == annotated {
		annotations["nvidia.com/container.main.gpu-memory.request"] = "2Gi"
		annotations["nvidia.com/container.main.gpu-memory.limit"] = "4Gi"
		// A node has eight GPUs, taken in turn.
		annotations["nvidia.com/container.main.gpus.devices"] = "GPU-" + uid(serial%8)
	}
	return &api.PodSandbox{
		Id: hexID("5a", serial), Name: fmt.Sprintf("trainer-%d", serial), Uid: uid(serial), Namespace: "research",
		Labels: labels, Annotations: annotations, Pid: 4711, Ips: []string{"10.244.1.17"},
		Linux: &api.LinuxPodSandbox{
			CgroupParent: "/kubepods/burstable/pod" + uid(serial),
			CgroupsPath:  "/kubepods/burstable/pod" + uid(serial) + "/" + hexID("5a", serial),
		},
	}
}

func container(serial int, k kind) *api.Container {
	labels := kubeletLabels(serial)
	labels["io.kubernetes.container.name"], labels["io.cri-containerd.kind"] = "main", "container"
	return &api.Container{
		Id: hexID("c0", serial), PodSandboxId: hexID("5a", serial), Name: "main", Labels: labels,
		Annotations: map[string]string{
			"io.kubernetes.container.hash":                     "8e1f3c60",
			"io.kubernetes.container.restartCount":             "0",
			"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
			"io.kubernetes.container.terminationMessagePolicy": "File",
			"io.kubernetes.cri.container-name":                 "main",
			"io.kubernetes.cri.image-name":                     "localhost/trainer:1",
			"io.kubernetes.pod.terminationGracePeriod":         "30",
		},
		Args: []string{"/usr/bin/python3", "-m", "trainer", "--epochs", "40"}, Env: environment(k), Mounts: mounts(serial),
		Linux: &api.LinuxContainer{
			Namespaces:  namespaces(),
			OomScoreAdj: api.Int(937),
			CgroupsPath: "/kubepods/burstable/pod" + uid(serial) + "/" + hexID("c0", serial),
			Resources: &api.LinuxResources{
				Memory: &api.LinuxMemory{Limit: api.Int64(int64(8 << 30))},
				Cpu:    &api.LinuxCPU{Shares: api.UInt64(uint64(2048)), Quota: api.Int64(int64(400000)), Period: api.UInt64(uint64(100000))},
			},
		},
	}
}

func environment(k kind) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=trainer", "HOME=/root"}
	if k == annotated {
		// What the admission of a GPU runtime leaves in a container that has asked for no whole GPU.
		env = append(env, "NVIDIA_VISIBLE_DEVICES=void")
	}
	for i := range serviceVariables {
		env = append(env, fmt.Sprintf("RESEARCH_SERVICE_%02d_PORT_8443_TCP_ADDR=10.96.%d.%d", i, i, 100+i))
	}
	return env
}

func namespaces() []*api.LinuxNamespace {
	list := []*api.LinuxNamespace{{Type: "pid"}, {Type: "mount"}, {Type: "cgroup"}}
	for _, shared := range []string{"ipc", "uts", "network"} {
		list = append(list, &api.LinuxNamespace{Type: shared, Path: "/proc/4711/ns/" + shared})
	}
	return list
}

func mounts(serial int) []*api.Mount {
	pod := "/var/lib/kubelet/pods/" + uid(serial)
	list := []*api.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
	}
	for destination, source := range map[string]string{"/etc/hosts": "/etc-hosts", "/dev/termination-log": "/containers/main/8e1f3c60"} {
		list = append(list, bind(pod+source, destination))
	}
	for i := range volumes {
		source := fmt.Sprintf("%s/volumes/kubernetes.io~empty-dir/volume-%d", pod, i)
		list = append(list, bind(source, fmt.Sprintf("/data/volume-%d", i)))
	}
	return list
}

func bind(source, destination string) *api.Mount {
	return &api.Mount{Source: source, Destination: destination, Type: "bind", Options: []string{"rbind", "rprivate", "rw"}}
}
