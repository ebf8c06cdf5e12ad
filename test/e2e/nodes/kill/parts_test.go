//go:build nodes

package kill

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// place is where a migration happens.
type place struct {
	*town
	source, target *cluster.Node
}

// workload is a kind of Job whose pod moves.
type workload struct {
	name   string
	change func(*batchv1.JobSpec)
	// plain is the one with which every part is killed. held is the one that is frozen for long.
	plain, held bool
}

var workloads = []workload{
	{name: "a Job", change: func(*batchv1.JobSpec) {}, plain: true},
	{name: "a Job whose container is started again", change: func(s *batchv1.JobSpec) { s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }},
	{name: "a Job with a liveness probe", change: probed, held: true},
	{name: "a Job with files in volumes of its own", change: keeping},
}

// keeping gives the container files in shared memory and in emptyDirs, which it reads again with each step.
func keeping(s *batchv1.JobSpec) {
	pod := &s.Template.Spec
	pod.Volumes = append(pod.Volumes,
		corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}})
	c := &pod.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "scratch", MountPath: "/scratch"}, corev1.VolumeMount{Name: "memory", MountPath: "/memory"})
	c.Env = append(c.Env, corev1.EnvVar{Name: "KEEP", Value: "/dev/shm/chain /scratch/chain /memory/chain"})
}

// probed gives the container a liveness probe that tolerates a move, but not much more.
func probed(s *batchv1.JobSpec) {
	c := &s.Template.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: "LISTEN", Value: ":8080"})
	c.LivenessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}},
		PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 37,
	}
}

// heldAt are the steps at which a container is frozen until a part is back.
var heldAt = []string{"Frozen", "Dumped", "Staged"}

// ending is what a part takes along when it is killed.
type ending string

const (
	endsSource ending = "the containers of the old node"
	endsTarget ending = "the containers of the new node"
)

// part is a program, a machine or a resource that can be taken away. kill returns when it is away, again when it
// is back.
type part struct {
	name        string
	kill, again func(context.Context, place) error
	// before is called before the migration begins; nil for nothing.
	before func(context.Context, place) error
	ends   ending
	// canEndTheSource: by mistake, the kubelet of the source could kill or start a container again.
	canEndTheSource bool
	// holds: without it, a frozen container stays frozen.
	holds bool
}

// nothing is what is done for a part that comes back by itself.
func nothing(context.Context, place) error { return nil }

var parts = []part{
	{
		name: "agent of the source", canEndTheSource: true, holds: true,
		kill:  func(ctx context.Context, at place) error { return at.fleet.Agents[at.source.Name].Kill(ctx) },
		again: func(_ context.Context, at place) error { return at.fleet.Agents[at.source.Name].Start() },
	},
	{
		name: "agent of the target", holds: true,
		kill:  func(ctx context.Context, at place) error { return at.fleet.Agents[at.target.Name].Kill(ctx) },
		again: func(_ context.Context, at place) error { return at.fleet.Agents[at.target.Name].Start() },
	},
	{
		name: "controller", holds: true,
		kill:  func(ctx context.Context, at place) error { return at.fleet.Descheduler.Kill(ctx) },
		again: func(_ context.Context, at place) error { return at.fleet.Descheduler.Start() },
	},
	{
		name: "API server", canEndTheSource: true, holds: true, // without etcd, it answers no request
		kill:  func(_ context.Context, at place) error { return at.fleet.StopEtcd() },
		again: func(ctx context.Context, at place) error { return at.fleet.StartEtcd(ctx) },
	},
	{
		name: "containerd of the source", canEndTheSource: true, holds: true,
		kill:  func(ctx context.Context, at place) error { return at.source.KillContainerd(ctx) },
		again: func(ctx context.Context, at place) error { return at.source.StartContainerd(ctx) },
	},
	{
		name: "containerd of the target", holds: true,
		kill:  func(ctx context.Context, at place) error { return at.target.KillContainerd(ctx) },
		again: func(ctx context.Context, at place) error { return at.target.StartContainerd(ctx) },
	},
	{
		name: "shim of the source", ends: endsSource, canEndTheSource: true,
		kill:  func(ctx context.Context, at place) error { return killShims(ctx, at, at.source) },
		again: nothing,
	},
	{
		name: "shim of the target", ends: endsTarget,
		kill:  func(ctx context.Context, at place) error { return killShims(ctx, at, at.target) },
		again: nothing,
	},
	{
		name: "kubelet of the source", canEndTheSource: true, holds: true,
		kill:  func(ctx context.Context, at place) error { return at.source.KillKubelet(ctx) },
		again: func(ctx context.Context, at place) error { return at.source.StartKubelet(ctx) },
	},
	{
		name: "kubelet of the target", holds: true,
		kill:  func(ctx context.Context, at place) error { return at.target.KillKubelet(ctx) },
		again: func(ctx context.Context, at place) error { return at.target.StartKubelet(ctx) },
	},
	{
		name: "node of the source", ends: endsSource, canEndTheSource: true,
		kill:  func(ctx context.Context, at place) error { return at.source.Kill(ctx) },
		again: func(ctx context.Context, at place) error { return boot(ctx, at, at.source) },
	},
	{
		name: "node of the target", ends: endsTarget,
		kill:  func(ctx context.Context, at place) error { return at.target.Kill(ctx) },
		again: func(ctx context.Context, at place) error { return boot(ctx, at, at.target) },
	},
	{
		name: "network of the source", canEndTheSource: true, holds: true,
		kill:  func(ctx context.Context, at place) error { return at.source.Unplug(ctx) },
		again: func(ctx context.Context, at place) error { return at.source.Plug(ctx) },
	},
	{
		name: "network of the target", holds: true,
		kill:  func(ctx context.Context, at place) error { return at.target.Unplug(ctx) },
		again: func(ctx context.Context, at place) error { return at.target.Plug(ctx) },
	},
	{
		name: "room for dumps",
		kill: func(ctx context.Context, at place) error {
			return shell(ctx, at.source, "fallocate -l $(df --output=avail -B1 %[1]s | tail -n 1) %[1]s/full || true", workDir(at.source))
		},
		again: func(ctx context.Context, at place) error {
			return shell(ctx, at.source, "rm -f %s/full", workDir(at.source))
		},
	},
	{
		name: "disk of the target", // one of its own for checkpoints, since the nodes share that of the machine
		before: func(ctx context.Context, at place) error {
			return shell(ctx, at.target, "mkdir -p %[1]s && { mountpoint -q %[1]s || mount -t tmpfs -o size=256m none %[1]s; }", stagingDir(at.target))
		},
		kill: func(ctx context.Context, at place) error {
			return shell(ctx, at.target, "fallocate -l $(df --output=avail -B1 %[1]s | tail -n 1) %[1]s/full || true", stagingDir(at.target))
		},
		again: func(ctx context.Context, at place) error {
			return shell(ctx, at.target, "rm -f %s/full", stagingDir(at.target))
		},
	},
}

func workDir(node *cluster.Node) string { return filepath.Join(node.Dir, "agent-work") }

// stagingDir is where the agent of a node keeps the checkpoints that arrive.
func stagingDir(node *cluster.Node) string { return filepath.Join(node.Dir, "agent", "staged") }

// boot starts a machine that has lost power.
func boot(ctx context.Context, at place, node *cluster.Node) error {
	if err := node.Start(ctx); err != nil {
		return err
	}
	return at.fleet.Agents[node.Name].Start()
}

// killShims kills the shims of the test's pods on a node. containerd then ends their containers.
func killShims(ctx context.Context, at place, node *cluster.Node) error {
	// A bundle has the namespace of its pod, and is the working directory of its shim.
	return shell(ctx, node, `for p in /proc/[0-9]*; do
		[ "$(cat $p/comm 2>/dev/null)" = containerd-shim ] || continue
		grep -q '"io.kubernetes.cri.sandbox-namespace":"%s"' $p/cwd/config.json && kill -KILL ${p#/proc/}
	done; true`, at.Namespace)
}

// shell runs a command on a node.
func shell(ctx context.Context, node *cluster.Node, format string, args ...any) error {
	command := fmt.Sprintf(format, args...)
	if output, err := node.Run(ctx, "sh", "-c", command); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.TrimSpace(command), err, output)
	}
	return nil
}
