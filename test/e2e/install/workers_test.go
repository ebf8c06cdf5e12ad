//go:build install

package install

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"supercargo.dev/supercargo/test/e2e/nodes/oci"
)

// flow returns a Makeflow of tasks that take a while each, and one task that joins them.
func flow(tasks int) string {
	var rules strings.Builder
	rules.WriteString(".MAKEFLOW CATEGORY split\nCORES=1\nMEMORY=50\nDISK=10\n")
	var parts []string
	for i := range tasks {
		part := fmt.Sprintf("part.%d", i)
		parts = append(parts, part)
		fmt.Fprintf(&rules, "%s:\n\tsleep 5; echo %d > %s\n", part, i, part)
	}
	fmt.Fprintf(&rules, "all: %s\n\tcat %s > all\n", strings.Join(parts, " "), strings.Join(parts, " "))
	return rules.String()
}

// pool has workers for the manager on the control plane node, where the user is logged in.
const pool = `
apiVersion: v1
kind: Secret
metadata: {name: makeflow}
stringData: {password: "a word\n"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: supercargo-autoscaler-workers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: supercargo-autoscaler-workers}
subjects: [{kind: ServiceAccount, name: supercargo-autoscaler, namespace: supercargo-system}]
---
apiVersion: supercargo.dev/v1alpha1
kind: WorkerPool
metadata: {name: flow}
spec:
  mode: Act
  manager: {address: "%s:9123", passwordSecret: {name: makeflow}, goneAfter: 10s}
  worker: {resources: {cores: 1, memory: 64Mi}, idleTimeout: 5s}
  limits: {max: 2}
  template:
    spec:
      containers:
        - name: worker
          image: localhost/cctools:1
          imagePullPolicy: Never
          volumeMounts: [{name: tmp, mountPath: /tmp}]
      volumes: [{name: tmp, emptyDir: {}}]
`

// workerImage returns an image of the machine's work_queue_worker, with the programs that tasks run.
func (s *site) workerImage() oci.Image {
	s.Helper()
	const program = "/usr/bin/work_queue_worker"
	files := map[string]string{"/etc/passwd": "/etc/passwd"}
	programs := []string{program}
	for _, name := range []string{"sh", "sleep", "cat", "cp", "mv", "rm", "mkdir", "ls", "uname"} {
		programs = append(programs, "/bin/"+name)
		files["/bin/"+name] = "/bin/" + name
	}
	out, err := exec.CommandContext(s.Context(), "ldd", programs...).Output()
	if err != nil {
		s.Fatalf("list the libraries of Work Queue's worker: %v; install Debian's coop-computing-tools", err)
	}
	for word := range strings.FieldsSeq(string(out)) {
		if filepath.IsAbs(word) && !strings.HasSuffix(word, ":") {
			files[word] = word
		}
	}
	return oci.Image{Name: "localhost/cctools:1", Program: program, Path: program, Files: files}
}

// poolFollowsItsManager runs a Makeflow whose tasks only the pool's workers can run.
func (s *site) poolFollowsItsManager() {
	node := s.Nodes[0]
	dir := filepath.Join(node.Dir, "flow")
	for name, content := range map[string]string{"Makeflow": flow(6), "password": "a word\n"} {
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)); err != nil {
			s.Fatal(err)
		}
	}
	manager := node.Program("/bin/sh", "-c", "cd '"+dir+"' && exec makeflow -T wq -p 9123 --password password Makeflow")
	manager.Name = "makeflow"
	// Debian's binary is linked to Open MPI, which refuses to run as root and expects ssh.
	manager.Env = []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_plm_rsh_agent=", "OMPI_MCA_ess_singleton_isolated=1"}
	if err := manager.Start(); err != nil {
		s.Fatal(err)
	}
	s.apply(fmt.Sprintf(pool, node.Address))
	most := 0
	s.eventually("the workflow has ended", func() error {
		pods, err := s.try("kubectl", "get", "pods", "-l", "supercargo.dev/worker-pool=flow", "-o", "name")
		if err == nil {
			most = max(most, len(lines(pods)))
		}
		if manager.Running() {
			return errors.Join(err, fmt.Errorf("it runs, with %d workers at most: %s", most, s.get("{.status.conditions}", "workerpool", "flow")))
		}
		return nil
	})
	all, err := os.ReadFile(filepath.Join(dir, "all"))
	if err != nil || string(all) != "0\n1\n2\n3\n4\n5\n" {
		s.Errorf("the workflow made %q, %v; see %s", all, err, manager.LogPath())
	}
	if most == 0 || most > 2 {
		s.Errorf("there were %d workers at most, want 1 or 2", most)
	}
	s.says("", "{.items[*].metadata.name}", "pods", "-l", "supercargo.dev/worker-pool=flow")
	s.kubectl("delete", "workerpool/flow", "secret/makeflow", "rolebinding/supercargo-autoscaler-workers")
}
