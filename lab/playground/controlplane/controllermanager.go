package controlplane

import (
	"context"

	"supercargo.dev/supercargo/lab/playground/process"

	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
)

// StartControllerManager starts the kube-controller-manager. [Playground.waitReady] waits for it to
// become ready.
func (p *ControlPlane) StartControllerManager() error {
	c := p.certs
	if p.opts.kubernetesDir() != "" {
		return p.startOtherControllerManager(c)
	}
	opts, err := controllerManagerOptions(p.dir, c)
	if err != nil {
		return &process.Error{Doing: "configure", Name: "kube-controller-manager", Err: err}
	}
	if period := p.opts.AutoscalerPeriod; period > 0 {
		opts.HPAController.HorizontalPodAutoscalerSyncPeriod.Duration = period
	}
	return p.group.Add(process.Start("kube-controller-manager", process.KubernetesLog, func(ctx context.Context) error {
		config, err := opts.Config(ctx, app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
		if err != nil {
			return err
		}
		return app.Run(ctx, config.Complete())
	}))
}

func controllerManagerOptions(s *Directory, c *certs) (*options.KubeControllerManagerOptions, error) {
	o, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	o.Generic.ClientConnection.Kubeconfig = s.kubeconfig
	o.Generic.ClientConnection.QPS = ClientQPS
	o.Generic.ClientConnection.Burst = ClientQPS
	o.Generic.LeaderElection.LeaderElect = false
	o.SecureServing.BindPort = 0
	o.SAController.ServiceAccountKeyFile = c.serviceAccounts.keyFile
	o.SAController.RootCAFile = c.ca.certFile
	o.CSRSigningController.ClusterSigningCertFile = c.ca.certFile
	o.CSRSigningController.ClusterSigningKeyFile = c.ca.keyFile
	return o, nil
}
