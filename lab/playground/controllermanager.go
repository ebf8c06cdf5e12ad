package playground

import (
	"context"

	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
)

// startControllerManager starts the kube-controller-manager. [Playground.waitReady] waits for it to
// become ready.
func (p *Playground) startControllerManager(c *certs) error {
	if p.opts.kubernetesDir() != "" {
		return p.startOtherControllerManager(c)
	}
	opts, err := controllerManagerOptions(p.state, c)
	if err != nil {
		return &componentError{doing: "configure", name: "kube-controller-manager", err: err}
	}
	if period := p.opts.AutoscalerPeriod; period > 0 {
		opts.HPAController.HorizontalPodAutoscalerSyncPeriod.Duration = period
	}
	return p.add(startComponent("kube-controller-manager", kubernetesLog, func(ctx context.Context) error {
		config, err := opts.Config(ctx, app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
		if err != nil {
			return err
		}
		return app.Run(ctx, config.Complete())
	}))
}

func controllerManagerOptions(s *state, c *certs) (*options.KubeControllerManagerOptions, error) {
	o, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	o.Generic.ClientConnection.Kubeconfig = s.kubeconfig
	o.Generic.ClientConnection.QPS = clientQPS
	o.Generic.ClientConnection.Burst = clientQPS
	o.Generic.LeaderElection.LeaderElect = false
	o.SecureServing.BindPort = 0
	o.SAController.ServiceAccountKeyFile = c.serviceAccounts.keyFile
	o.SAController.RootCAFile = c.ca.certFile
	o.CSRSigningController.ClusterSigningCertFile = c.ca.certFile
	o.CSRSigningController.ClusterSigningKeyFile = c.ca.keyFile
	return o, nil
}
