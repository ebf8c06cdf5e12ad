package planfile

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// planned returns the machines and the pods without one, with reasons, of the plan for two files.
func planned(t *testing.T, name, pods, flavors string) []string {
	t.Helper()
	sold, err := ReadFlavors("f.csv", strings.NewReader(flavors))
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRequest(name, readPods(t, name, pods), sold)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDocument("supercargo", r, planSupercargo(r, func() bool { return false }), 0)
	var lines []string
	for _, a := range d.Assignments {
		lines = append(lines, a.Pod+" on "+a.Machine)
	}
	for _, u := range d.Unplaceable {
		lines = append(lines, u.Pod+": "+u.Reason)
	}
	slices.Sort(lines)
	return lines
}

func TestGPUsOfPodsAndFlavorsArePlanned(t *testing.T) {
	const (
		flavors = "name,cpu,memory_gib,price_per_hour,extended_resources\nplain,8,32,0.1,\ngpu,8,32,2,nvidia.com/gpu=2;example.com/nic=1\nshares,8,32,1,alibabacloud.com/gpu-milli=2000\n"
		none    = "name,cpu,memory_gib,price_per_hour\nplain,8,32,0.1\n"
		disks   = "name,cpu,memory_gib,price_per_hour,ephemeral_storage_gib\nlarge,8,32,2,100\nsmall,8,32,0.1,50\n"
		openb   = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos,creation_time,deletion_time\n"
	)
	pod := func(name, requests string) string {
		return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {" + requests + "}}}]}\n"
	}
	tests := []struct {
		name, file, pods, flavors string
		want                      []string
	}{
		{"GPUs of manifests", "p.yaml", pod("a", "nvidia.com/gpu: 2") + pod("b", "nvidia.com/gpu: 1") + pod("c", "nvidia.com/gpu: 1"), flavors,
			[]string{"a on gpu-0", "b on gpu-1", "c on gpu-1"}},
		{"pods without GPUs fill machines", "p.yaml", pod("a", "nvidia.com/gpu: 1") + pod("b", ""), flavors, []string{"a on gpu-0", "b on gpu-0"}},
		{"and get others", "p.yaml", pod("b", ""), flavors, []string{"b on plain-0"}},
		{"another resource, which only machines with GPUs have", "p.yaml", pod("a", "example.com/nic: 1"), flavors,
			[]string{"a: 0 of 3 flavors: 2 not admitted: it has GPUs, and the pod requests none of them, 1 too small (example.com/nic)"}},
		{"more than there is", "p.yaml", pod("a", "nvidia.com/gpu: 3"), flavors, []string{"a: 0 of 3 flavors: 3 too small (nvidia.com/gpu)"}},
		{"what no flavor states", "p.yaml", pod("a", "amd.com/gpu: 1"), flavors, []string{"a: requests 1 amd.com/gpu, which flavors do not specify"}},
		{"ephemeral storage that some flavor states", "p.yaml", pod("a", "ephemeral-storage: 60Gi") + pod("b", "ephemeral-storage: 30Gi") + pod("c", "ephemeral-storage: 20Gi"), disks,
			[]string{"a on large-0", "b on large-0", "c on small-0"}},
		{"more than there is", "p.yaml", pod("a", "ephemeral-storage: 101Gi"), disks,
			[]string{"a: 0 of 2 flavors: 1 not admitted: insufficient ephemeral-storage: it needs 101Gi of 100Gi that are free, 1 not admitted: insufficient ephemeral-storage: it needs 101Gi of 50Gi that are free"}},
		{"that no flavor states", "p.yaml", pod("a", "ephemeral-storage: 60Ti"), none, []string{"a on plain-0"}},
		{"shares of GPUs of a trace", "t.csv", openb + "a,1000,1,1,600,BE,1,2\nb,1000,1,1,500,BE,1,2\nc,1000,1,2,1000,BE,1,2\nd,1000,1,0,0,BE,1,2\n", flavors,
			[]string{"a on shares-1", "b on shares-1", "c on shares-0", "d on shares-0"}},
		{"shares of GPUs that no flavor states", "t.csv", openb + "a,1000,1,1,600,BE,1,2\n", none, []string{"a on plain-0"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, planned(t, tc.file, tc.pods, tc.flavors)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
