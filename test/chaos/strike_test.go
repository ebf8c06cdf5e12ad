//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/test/chaos/fault"
	"supercargo.dev/supercargo/test/chaos/ledger"
	"supercargo.dev/supercargo/test/chaos/proxy"
)

// striker injects faults.
type striker struct {
	*world
	interfered []ledger.Meddling
}

// strike injects a fault, and returns when it is over. It returns an error if the injection failed.
func (s *striker) strike(ctx context.Context, f fault.Fault) error {
	var p *program
	if f.Program != "" {
		p = s.program(f.Program)
	}
	switch f.Kind {
	case fault.Kill:
		return s.leader(p).signal(syscall.SIGKILL)
	case fault.Pause:
		return s.paused(ctx, s.leader(p), f.Lasts)
	case fault.DeleteLease, fault.GiveLease:
		return s.interfere(ctx, p, f.Kind)
	case fault.ResetWatches:
		return s.resetWatches(ctx, p, f.Lasts)
	case fault.RestartEtcd:
		return s.withoutEtcd(ctx, f.Lasts)
	case fault.FullEtcd:
		return s.fullEtcd(ctx, f.Lasts)
	case fault.FullDisk:
		return s.fullDisk(ctx, f.Lasts)
	case fault.BlackHole:
		return s.under(ctx, []*replica{s.leader(p)}, proxy.Weather{Swallow: true}, f.Lasts)
	}
	weather, is := map[fault.Kind]proxy.Weather{
		fault.Drop: {Refuse: true}, fault.Delay: {Delay: 1500 * time.Millisecond}, fault.TooMany: {TooMany: 0.8}, fault.LoseAnswers: {LoseAnswers: 0.3},
	}[f.Kind]
	if !is {
		return fmt.Errorf("nobody knows how to carry out %v", f)
	}
	return s.under(ctx, p.replicas, weather, f.Lasts)
}

// last waits for the duration of a fault.
func last(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// leader returns the replica that last wrote the Lease of its program. Agents have no Lease: it returns
// the first one.
func (w *world) leader(p *program) *replica {
	leader := p.replicas[0]
	for _, r := range p.replicas {
		if r.proxy.Renewed().After(leader.proxy.Renewed()) {
			leader = r
		}
	}
	return leader
}

// paused stops a replica with SIGSTOP for a duration.
func (s *striker) paused(ctx context.Context, r *replica, lasts time.Duration) error {
	if err := r.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	s.events.note("paused", map[string]any{"replica": r.name})
	err := last(ctx, lasts)
	s.events.note("continues", map[string]any{"replica": r.name})
	return errors.Join(err, r.signal(syscall.SIGCONT))
}

// under sets the weather of the proxies of some replicas for a duration.
func (s *striker) under(ctx context.Context, some []*replica, weather proxy.Weather, lasts time.Duration) error {
	var hits int64
	for _, r := range some {
		hits -= r.proxy.Hits()
		r.proxy.Set(weather)
	}
	err := last(ctx, lasts)
	for _, r := range some {
		r.proxy.Set(proxy.Weather{})
		hits += r.proxy.Hits()
	}
	s.events.note("fair again", map[string]any{"hits": hits})
	return err
}

// resetWatches ends all watches of a program, once a second.
func (s *striker) resetWatches(ctx context.Context, p *program, lasts time.Duration) error {
	for until := time.Now().Add(lasts); time.Now().Before(until); {
		for _, r := range p.replicas {
			r.proxy.ResetWatches()
		}
		if err := last(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// interfere deletes the Lease of a program or changes its holder, and records when.
func (s *striker) interfere(ctx context.Context, p *program, how fault.Kind) error {
	key := client.ObjectKey{Namespace: p.namespace, Name: p.lease}
	s.interfered = append(s.interfered, ledger.Meddling{Program: p.name, At: time.Now()})
	if how == fault.DeleteLease {
		return s.client.Delete(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var lease coordinationv1.Lease
		if err := s.client.Get(ctx, key, &lease); err != nil {
			return err
		}
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.AcquireTime, lease.Spec.RenewTime = new("somebody-else"), &now, &now
		lease.Spec.LeaseDurationSeconds = new(int32(fault.Lease.Seconds()))
		return s.client.Update(ctx, &lease)
	})
}

// withoutEtcd stops etcd for a duration.
func (s *striker) withoutEtcd(ctx context.Context, lasts time.Duration) error {
	if err := s.p.StopEtcd(); err != nil {
		return err
	}
	err := last(ctx, lasts)
	return errors.Join(err, s.p.StartEtcd(context.WithoutCancel(ctx)))
}

// filler is the prefix of the keys that fill etcd.
const filler = "/chaos/filler/"

// fullEtcd fills etcd until it refuses writes, waits, and then frees space as an operator would:
// delete, compact, defragment, disarm the alarm.
func (s *striker) fullEtcd(ctx context.Context, lasts time.Duration) (err error) {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{s.p.EtcdEndpoint()}, DialTimeout: requestTimeout})
	if err != nil {
		return fmt.Errorf("reach etcd: %w", err)
	}
	defer func() { err = errors.Join(err, etcd.Close()) }()
	value := string(bytes.Repeat([]byte{'x'}, 1<<20))
	filled := false
	for i := 0; i < 2*etcdQuota>>20; i++ {
		if _, err := etcd.Put(ctx, fmt.Sprintf("%s%d", filler, i), value); err != nil {
			s.events.note("etcd is full", map[string]any{"says": err.Error(), "values": i})
			filled = true
			break
		}
	}
	if filled {
		err = last(ctx, lasts)
	} else {
		err = errors.New("etcd took twice its quota and did not refuse")
	}
	return errors.Join(err, emptyEtcd(context.WithoutCancel(ctx), etcd, s.p.EtcdEndpoint()))
}

func emptyEtcd(ctx context.Context, etcd *clientv3.Client, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	deleted, err := etcd.Delete(ctx, filler, clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("make room in etcd: %w", err)
	}
	if _, err := etcd.Compact(ctx, deleted.Header.Revision); err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	if _, err := etcd.Defragment(ctx, endpoint); err != nil {
		return fmt.Errorf("defragment etcd: %w", err)
	}
	if _, err := etcd.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return fmt.Errorf("disarm the alarm of etcd: %w", err)
	}
	return nil
}

// fullDisk fills the disk of the agents for a duration.
func (s *striker) fullDisk(ctx context.Context, lasts time.Duration) error {
	path := filepath.Join(s.disk, "filler")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	block := bytes.Repeat([]byte{'x'}, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	_ = file.Close()
	if errors.Is(err, syscall.ENOSPC) {
		err = last(ctx, lasts)
	}
	return errors.Join(err, os.Remove(path))
}
