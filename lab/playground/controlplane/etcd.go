package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"supercargo.dev/supercargo/lab/playground/process"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcdName is the name of the single member. It is part of the data, so it must never change, or
// directories cannot be resumed.
const etcdName = "playground"

// etcdComponent is the name of the component.
const etcdComponent = "etcd"

// etcdQuota is the default size of the data at which etcd refuses writes.
const etcdQuota = 4 << 30

// startEtcd starts an etcd that listens only on a Unix socket in the playground's directory,
// because it has no authentication.
func (p *ControlPlane) startEtcd(ctx context.Context) error {
	fail := func(err error) error {
		return &process.Error{Doing: "start", Name: "etcd", Log: process.EtcdLog, Err: err}
	}
	// StartEtcd cannot be interrupted, but is fast.
	server, err := embed.StartEtcd(etcdConfig(p.dir, p.group, cmp.Or(p.opts.EtcdQuotaBytes, etcdQuota)))
	if err != nil {
		return fail(err)
	}
	c := process.Start(etcdComponent, process.EtcdLog, func(ctx context.Context) error {
		defer server.Close()
		select {
		case <-ctx.Done():
			return nil
		case err := <-server.Err():
			return err
		case <-server.Server.StopNotify():
			return errors.New("stopped unexpectedly")
		}
	})
	if err := p.group.Add(c); err != nil {
		return err
	}
	select {
	case <-server.Server.ReadyNotify():
		return nil
	case <-p.group.Done():
		return p.group.Err()
	case <-ctx.Done():
		return fail(fmt.Errorf("wait until it is ready: %w", context.Cause(ctx)))
	}
}

// EtcdEndpoint returns the URL of etcd for its clients. etcd requires no authentication.
func (p *ControlPlane) EtcdEndpoint() string { return "unix://" + p.dir.etcdSocket() }

// StopEtcd stops etcd, for tests of a cluster without it. The API server does not answer requests that
// need etcd. [ControlPlane.StartEtcd] starts it again with all objects. StopEtcd fails if etcd does not run.
func (p *ControlPlane) StopEtcd() error {
	c := p.group.Find(etcdComponent)
	if c == nil {
		return errors.New("stop etcd: it does not run")
	}
	err := c.Stop()
	p.group.Remove(c)
	return err
}

// StartEtcd starts etcd, and returns when it is ready. After [ControlPlane.StopEtcd], the API server reconnects within
// seconds.
func (p *ControlPlane) StartEtcd(ctx context.Context) error {
	if err := p.startEtcd(ctx); err != nil {
		return p.group.Explain(err)
	}
	// Stop stops the components in reverse order, and the others need etcd in order to stop.
	p.group.ToFront(p.group.Find(etcdComponent))
	return nil
}

func etcdConfig(s *Directory, group *process.Group, quota int64) *embed.Config {
	config := embed.NewConfig()
	config.Name = etcdName
	config.Dir = s.etcdDir()
	config.UnsafeNoFsync = true // the data need not survive the machine
	config.ListenClientUrls = []url.URL{{Scheme: "unix", Path: s.etcdSocket()}}
	config.ListenPeerUrls = nil // there are no peers
	config.EnableGRPCGateway = false
	// The advertised URL must be a valid address and stay the same when the directory is resumed.
	// No client connects to it.
	nowhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:2379"}}
	config.AdvertiseClientUrls = nowhere
	config.AdvertisePeerUrls = nowhere
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	// A single member elects itself. The default timeout of one second is for finding other
	// members.
	config.TickMs = 10
	config.ElectionMs = 100
	config.AutoCompactionRetention = "0" // the API server compacts
	config.QuotaBackendBytes = quota
	config.WarningApplyDuration = time.Second // slow requests are normal on a busy machine
	config.WarningUnaryRequestDuration = time.Second
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(group))
	return config
}

// etcdLogger logs to the playground's file. A fatal log entry ends the calling goroutine instead of
// the process.
func etcdLogger(group *process.Group) *zap.Logger {
	format := zap.NewProductionEncoderConfig()
	format.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(format), zapcore.AddSync(group.Log(process.EtcdLog)), zapcore.InfoLevel)
	return zap.New(core, zap.WithFatalHook(zapcore.WriteThenGoexit))
}
