package podvolumes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const emptyDirs = "/var/lib/kubelet/pods/uid/volumes/kubernetes.io~empty-dir/"

func bind(destination, source string) Mount { return Mount{destination, source, "bind"} }

func TestVolumesThatOnlyThePodHasAreFound(t *testing.T) {
	shm := bind("/dev/shm", "/run/containerd/io.containerd.grpc.v1.cri/sandboxes/s/shm")
	for name, tc := range map[string]struct {
		mounts []Mount
		want   []Volume
	}{
		"none":                             {nil, nil},
		"an emptyDir":                      {[]Mount{bind("/data/", emptyDirs+"v")}, []Volume{{"/data", emptyDirs + "v", nil}}},
		"shared memory":                    {[]Mount{shm}, []Volume{{"/dev/shm", shm.Source, nil}}},
		"an emptyDir as shared memory":     {[]Mount{bind("/dev/shm", emptyDirs+"v")}, []Volume{{"/dev/shm", emptyDirs + "v", nil}}},
		"one in another":                   {[]Mount{bind("/a", emptyDirs+"v"), bind("/a/b", emptyDirs+"w"), bind("/a/c/d", "/nfs"), bind("/ab", "/x")}, []Volume{{"/a", emptyDirs + "v", []string{"b", "c/d"}}, {"/a/b", emptyDirs + "w", nil}}},
		"one twice":                        {[]Mount{bind("/b", emptyDirs+"v"), bind("/a", emptyDirs+"v")}, []Volume{{"/a", emptyDirs + "v", nil}}},
		"the shared memory of the node":    {[]Mount{bind("/dev/shm", "/dev/shm")}, nil},
		"shared memory that is not shared": {[]Mount{{"/dev/shm", "/run/x/sandboxes/s/shm", "tmpfs"}}, nil},
		"shared memory elsewhere":          {[]Mount{bind("/shm", shm.Source)}, nil},
		"one of another pod":               {[]Mount{bind("/a", "/var/lib/kubelet/pods/uid2/volumes/kubernetes.io~empty-dir/v")}, nil},
		"a folder in an emptyDir":          {[]Mount{bind("/a", emptyDirs+"v/w")}, nil},
		"a path that leads out":            {[]Mount{bind("/a", emptyDirs+"../kubernetes.io~nfs/v")}, nil},
		"a claim":                          {[]Mount{bind("/a", "/var/lib/kubelet/pods/uid/volumes/kubernetes.io~nfs/v")}, nil},
		"a part of an emptyDir":            {[]Mount{bind("/a", "/var/lib/kubelet/pods/uid/volume-subpaths/v/main/0")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Of(tc.mounts, "uid")); diff != "" {
				t.Errorf("it finds other volumes (-want +got):\n%s", diff)
			}
			if got := Of(tc.mounts, ""); name != "shared memory" && len(got) > 0 {
				t.Errorf("without a pod, it finds %v", got)
			}
		})
	}
}
