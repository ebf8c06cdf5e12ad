//go:build install

package install

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"supercargo.dev/supercargo/autoscaler/adapter/nginx"
	"supercargo.dev/supercargo/test/e2e/nodes/oci"
)

// web is a service of Debian's nginx with Supercargo's exporter beside it, and a policy that keeps a replica
// at 40 % of ten requests per second at most.
const web = `
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data:
  nginx.conf: |
    daemon off;
    worker_processes 1;
    pid /tmp/nginx.pid;
    error_log stderr warn;
    events {}
    http {
      %s
      access_log /logs/access.log supercargo;
      client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/fastcgi; uwsgi_temp_path /tmp/uwsgi; scgi_temp_path /tmp/scgi;
      server { listen 8000; location / { return 200 "hello"; } }
      server { listen 127.0.0.1:8080; access_log off; location = /stub_status { stub_status; } }
    }
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {prometheus.io/scrape: "true", prometheus.io/port: "9113"}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 1
      securityContext: {runAsNonRoot: true, runAsUser: 65532}
      containers:
        - name: nginx
          image: localhost/nginx:1
          imagePullPolicy: Never
          args: [-c, /etc/web/nginx.conf, -e, stderr]
          readinessProbe: {httpGet: {path: /, port: 8000}, periodSeconds: 1}
          resources: {requests: {cpu: 10m, memory: 16Mi}}
          volumeMounts: [{name: web, mountPath: /etc/web}, {name: logs, mountPath: /logs}, {name: tmp, mountPath: /tmp}]
        - name: nginx-exporter
          image: registry.invalid/supercargo/nginx-exporter:v0.1.0
          args: [--status-url=http://127.0.0.1:8080/stub_status, --access-log=/logs/access.log]
          ports: [{name: metrics, containerPort: 9113}]
          resources: {requests: {cpu: 10m, memory: 16Mi}}
          volumeMounts: [{name: logs, mountPath: /logs}]
      volumes: [{name: web, configMap: {name: web}}, {name: logs, emptyDir: {}}, {name: tmp, emptyDir: {}}]
---
apiVersion: supercargo.dev/v1alpha1
kind: ReplicaPolicy
metadata: {name: web}
spec:
  target: {name: web}
  mode: Act
  maxReplicas: 4
  service: {ratePerReplica: "10"}
  law: {name: DoubleThreshold}
  metrics: {preset: {name: nginx, parameters: {window: 30s}}}
`

// nginxImage returns an image of the machine's nginx.
func (s *site) nginxImage() oci.Image {
	s.Helper()
	const program = "/usr/sbin/nginx"
	out, err := exec.CommandContext(s.Context(), "ldd", program).Output()
	if err != nil {
		s.Fatalf("list the libraries of nginx: %v; install Debian's nginx", err)
	}
	files := map[string]string{"/etc/passwd": "/etc/passwd", "/etc/group": "/etc/group"}
	for word := range strings.FieldsSeq(string(out)) {
		if filepath.IsAbs(word) {
			files[word] = word
		}
	}
	return oci.Image{Name: "localhost/nginx:1", Program: program, Path: program, Files: files}
}

// serviceIsScaled sends more requests than one replica can serve until there are more replicas, and then none
// until there are fewer.
func (s *site) serviceIsScaled() {
	s.apply(fmt.Sprintf(web, nginx.LogFormat))
	s.kubectl("rollout", "status", "deployment/web", "--timeout=5m")
	replicas := func() (int, error) {
		out, err := s.try("kubectl", "get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}")
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(out)
	}
	grown := 0
	func() {
		defer s.load(40 * time.Millisecond)()
		s.eventually("the service has grown", func() (err error) {
			if grown, err = replicas(); err == nil && grown < 3 {
				err = fmt.Errorf("it has %d replicas: %s", grown, s.get("{.status.conditions}", "replicapolicy", "web"))
			}
			return err
		})
	}()
	s.eventually("the service has shrunk", func() error {
		n, err := replicas()
		if err == nil && n >= grown {
			err = fmt.Errorf("it has %d replicas: %s", n, s.get("{.status.conditions}", "replicapolicy", "web"))
		}
		return err
	})
	s.kubectl("delete", "replicapolicy/web", "deployment/web", "configmap/web")
}

// load sends requests to the pods of the service in turn, one per pause, and returns a function that stops
// it. The machine can reach pods, but not the addresses of Services.
func (s *site) load(pause time.Duration) (end func()) {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		client := &http.Client{Timeout: time.Second}
		for {
			addresses, err := s.try("kubectl", "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}")
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				s.Log(err) // if this persists, the loop that waits for the effect of load fails
				continue
			}
			for range 100 {
				for address := range strings.FieldsSeq(addresses) {
					select {
					case <-ctx.Done():
						return
					case <-ticker.C:
					}
					if response, err := client.Get("http://" + address + ":8000/"); err == nil {
						_ = response.Body.Close() // the body does not matter
					}
				}
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
