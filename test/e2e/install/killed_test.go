//go:build install

package install

import (
	"errors"
	"fmt"
	"strings"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// killAll kills all processes of a program on a node.
const killAll = `for process in /proc/[0-9]*; do
	[ "$(cat $process/comm 2>/dev/null)" != "$1" ] || kill -KILL "${process#/proc/}"
done`

// leadersAreKilled kills each leader, so that it cannot release its Lease, and waits until another replica
// leads.
func (s *site) leadersAreKilled() {
	for _, program := range []string{"autoscaler", "descheduler"} {
		lease, deployment := program+".supercargo.dev", "supercargo-"+program
		holder := func() (string, error) {
			return s.try("kubectl", "get", "lease", lease, "-n", namespace, "-o", "jsonpath={.spec.holderIdentity}")
		}
		old, err := holder()
		if err != nil {
			s.Fatal(err)
		}
		pod, _, _ := strings.Cut(old, "_")
		node := s.Node(s.get("{.spec.nodeName}", "pod", pod, "-n", namespace))
		if out, err := node.Run(s.Context(), "sh", "-c", killAll, "sh", program); err != nil {
			s.Fatalf("kill %s on %s: %v\n%s", program, node.Name, err, out)
		}
		s.eventually("another "+deployment+" leads", func() error {
			now, err := holder()
			if err == nil && (now == old || now == "") {
				err = fmt.Errorf("the lease is held by %q", now)
			}
			return err
		})
		s.kubectl("rollout", "status", "deployment/"+deployment, "-n", namespace, "--timeout=5m")
	}
}

// workerIsKilled powers a worker off and on again. All pods that ran there must run there again.
func (s *site) workerIsKilled() {
	node := s.Nodes[2]
	if err := node.Kill(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.says("Unknown", `{.status.conditions[?(@.type=="Ready")].status}`, "node", node.Name)
	if err := s.StartNode(s.Context(), node); err != nil {
		s.Fatal(err)
	}
	s.says("True", `{.status.conditions[?(@.type=="Ready")].status}`, "node", node.Name)
	s.ready()
	s.eventually("the agent of the node is ready", func() error {
		out, err := s.try("kubectl", "get", "pods", "-n", "supercargo-agent", "--field-selector=spec.nodeName="+node.Name,
			"-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && out != "True" {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	})
	s.kubectl("run", "after", "--image", cluster.PauseImage, "--restart=Never",
		"--overrides", `{"spec":{"nodeSelector":{"kubernetes.io/hostname":"`+node.Name+`"}}}`)
	s.kubectl("wait", "--for=condition=Ready", "pod/after", "--timeout=5m")
	s.kubectl("delete", "pod", "after", "--now")
}

// certificatesAreMadeAgain empties the Secrets with the certificates of the webhook and of the metrics adapter,
// and waits until the API server trusts the new ones.
func (s *site) certificatesAreMadeAgain() {
	for _, secret := range []string{"supercargo-evictions", "supercargo-metrics-adapter-certificate"} {
		args := []string{"secret", secret, "-n", namespace, "--ignore-not-found"}
		old := s.get(`{.data.tls\.crt}`, args...)
		s.kubectl("patch", "secret", secret, "-n", namespace, "--type", "json", "--patch", `[{"op": "remove", "path": "/data"}]`)
		s.eventually("Secret "+secret+" has a new certificate", func() error {
			if now := s.get(`{.data.tls\.crt}`, args...); now == "" || now == old {
				return errors.New("it has the old one, or none")
			}
			return nil
		})
	}
	for _, api := range []string{"v1beta2.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io"} {
		s.says("True", `{.status.conditions[?(@.type=="Available")].status}`, "apiservice", api)
	}
	s.eventually("the API server trusts the metrics adapter", func() error {
		_, err := s.try("kubectl", "get", "--raw", "/apis/external.metrics.k8s.io/v1beta1")
		return err
	})
	// In mode closed, no pod is evicted while the API server cannot call the webhook.
	s.kubectl("run", "evicted", "--image", cluster.PauseImage, "--restart=Never")
	s.kubectl("wait", "--for=condition=Ready", "pod/evicted", "--timeout=2m")
	node := s.get("{.spec.nodeName}", "pod", "evicted")
	s.eventually("the API server trusts the webhook", func() error {
		_, err := s.try("kubectl", "drain", node, "--dry-run=server", "--force", "--pod-selector=run=evicted", "--timeout=20s")
		return err
	})
	s.kubectl("delete", "pod", "evicted", "--now")
}
