//go:build install

package install

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// renewal renews all certificates of the control plane, and restarts its static pods as kubeadm's
// documentation describes: it moves their files away until the kubelet has stopped them.
const renewal = `
kubeadm certs renew all
mkdir /etc/kubernetes/away
mv /etc/kubernetes/manifests/*.yaml /etc/kubernetes/away/
runs() { cat /proc/[0-9]*/comm 2>/dev/null | grep -Eqx 'etcd|kube-apiserver|kube-controller|kube-scheduler'; }
while runs; do sleep 1; done
mv /etc/kubernetes/away/*.yaml /etc/kubernetes/manifests/
`

// controlPlaneIsRenewed renews the certificates of the control plane and restarts it. It does not
// restart our programs: all of them must recover.
//
// It runs after the comparison of rights, because an API server that has just started rejects
// requests that roles allow until it has read the roles.
func (s *site) controlPlaneIsRenewed() {
	old, began := s.servedSerial(), time.Now()
	s.onControlPlane(renewal)
	s.say("the control plane was told to start again after %.0f s", time.Since(began).Seconds())
	s.eventually("the API server has a new certificate", func() error {
		now, err := s.askSerial()
		if err == nil && now == old {
			err = errors.New("it has the old one")
		}
		return err
	})
	s.say("the API server answers with a new certificate after %.0f s", time.Since(began).Seconds())
	// kubeadm has also renewed the certificate in the kubeconfig.
	testfile.Write(s, s.Kubeconfig, s.onControlPlane("cat /etc/kubernetes/admin.conf"))
	s.eventually("the API server is ready", func() error { _, err := s.try("kubectl", "get", "--raw", "/readyz"); return err })
	for _, program := range []string{"autoscaler", "descheduler"} {
		s.eventually("a leader of the "+program+" holds its lease since then", func() error {
			out, err := s.try("kubectl", "get", "lease", program+".supercargo.dev", "-n", namespace, "-o", "jsonpath={.spec.renewTime}")
			if err != nil {
				return err
			}
			renewed, err := time.Parse(time.RFC3339Nano, out)
			if err == nil && renewed.Before(time.Now().Add(-time.Minute)) {
				err = fmt.Errorf("it was renewed at %v", renewed)
			}
			return err
		})
	}
	s.controlPlaneIsReady()
	s.ready()
	for _, api := range []string{"v1beta2.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io"} {
		s.says("True", `{.status.conditions[?(@.type=="Available")].status}`, "apiservice", api)
	}
	s.say("all pods are ready after %.0f s", time.Since(began).Seconds())
	s.drained("renewed", secondScheduler)
}

// servedSerial returns the serial number of the API server's certificate.
func (s *site) servedSerial() string {
	s.Helper()
	serial, err := s.askSerial()
	if err != nil {
		s.Fatal(err)
	}
	return serial
}

func (s *site) askSerial() (string, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return "", err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return "", err
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // only the number is used
	conn, err := dialer.DialContext(s.Context(), "tcp", server.Host)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}
