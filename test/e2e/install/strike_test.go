//go:build install

package install

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"supercargo.dev/supercargo/test/chaos/fault"
	"supercargo.dev/supercargo/test/chaos/ledger"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// stateFolder is the folder in which the node agents keep their state.
const stateFolder = "/var/lib/supercargo"

// processes maps the ServiceAccounts of programs to the names of their processes.
var processes = map[string]string{
	"supercargo-autoscaler": "autoscaler", "supercargo-descheduler": "descheduler", "supercargo-scheduler": "kube-scheduler",
	"supercargo-node-agent": "node-agent",
}

// strike injects a fault, and returns when it is over. node is the source of the Migration in progress.
func (c *chaos) strike(f fault.Fault, node *cluster.Node) error {
	switch f.Kind {
	case fault.Kill:
		return c.signal(c.leader(f.Program), "KILL")
	case fault.Pause:
		return c.pause(c.leader(f.Program), f.Lasts)
	case fault.DeleteLease, fault.GiveLease:
		return c.interfere(f)
	case fault.TooMany:
		return c.tooMany(f)
	case fault.RestartEtcd, fault.KillAPIServer:
		process := map[fault.Kind]string{fault.RestartEtcd: "etcd", fault.KillAPIServer: "kube-apiserver"}[f.Kind]
		return c.runOn(c.Nodes[0], killAll, process)
	case fault.FullDisk:
		fill := "cat /dev/zero >" + stateFolder + "/filler 2>/dev/null"
		return errors.Join(c.runOn(node, fill+" || true"), c.lasts(f), c.runOn(node, "rm "+stateFolder+"/filler"))
	case fault.KillAgent:
		return c.signal(c.agent(node), "KILL")
	case fault.PauseAgent:
		return c.pause(c.agent(node), f.Lasts)
	case fault.KillKubelet:
		kubelet := c.Kubelet(node)
		return errors.Join(kubelet.Kill(c.Context()), c.lasts(f), kubelet.Start())
	case fault.KillContainerd:
		return errors.Join(node.KillContainerd(c.Context()), c.lasts(f), node.StartContainerd(c.Context()))
	case fault.Disconnect:
		return errors.Join(node.Unplug(c.Context()), c.lasts(f), node.Plug(c.Context()))
	}
	return fmt.Errorf("%v is unknown", f.Kind)
}

// lasts waits for the duration of a fault.
func (c *chaos) lasts(f fault.Fault) error { return c.wait(f.Lasts) }

func (c *chaos) wait(d time.Duration) error {
	select {
	case <-c.Context().Done():
		return c.Context().Err()
	case <-time.After(d):
		return nil
	}
}

// runOn runs a shell script on a node.
func (c *chaos) runOn(node *cluster.Node, script string, args ...string) error {
	out, err := node.Run(c.Context(), "sh", append([]string{"-c", script, "sh"}, args...)...)
	if err != nil {
		return fmt.Errorf("on node %s: %w\n%s", node.Name, err, out)
	}
	return nil
}

// pod is a pod of the release.
type pod struct {
	uid, process string
	node         *cluster.Node
}

// leader returns the leader of a program.
func (c *chaos) leader(program string) pod {
	c.Helper()
	lease := leases[program]
	name, _, _ := strings.Cut(c.get("{.spec.holderIdentity}", "lease", "-n", lease[0], lease[1]), "_")
	return c.pod(program, lease[0], name)
}

// agent returns the node agent of a node.
func (c *chaos) agent(node *cluster.Node) pod {
	c.Helper()
	const agents = "supercargo-agent"
	return c.pod("supercargo-node-agent", agents, c.get("{.items[0].metadata.name}", "pods", "-n", agents,
		"-l", "app.kubernetes.io/name=supercargo-node-agent", "--field-selector=spec.nodeName="+node.Name))
}

func (c *chaos) pod(program, namespace, name string) pod {
	c.Helper()
	uid, node, _ := strings.Cut(c.get("{.metadata.uid} {.spec.nodeName}", "pod", "-n", namespace, name), " ")
	return pod{uid: uid, process: processes[program], node: c.Node(node)}
}

// signalPod sends a signal to the process of a pod, and fails if there is none.
const signalPod = `found=no
for process in /proc/[0-9]*; do
	if grep -qs "pod$1" "$process/cgroup" && [ "$(cat "$process/comm" 2>/dev/null)" = "$2" ]; then
		kill "-$3" "${process#/proc/}" && found=yes
	fi
done
[ $found = yes ]`

func (c *chaos) signal(p pod, signal string) error {
	return c.runOn(p.node, signalPod, p.uid, p.process, signal)
}

// pause stops the process of a pod with SIGSTOP for a duration. The kubelet may restart it meanwhile, so there
// may be none to continue.
func (c *chaos) pause(p pod, d time.Duration) error {
	if err := c.signal(p, "STOP"); err != nil {
		return err
	}
	return errors.Join(c.wait(d), c.runOn(p.node, signalPod+" || true", p.uid, p.process, "CONT"))
}

// interfere deletes the Lease of a program, or sets its holder to a replica that does not exist.
func (c *chaos) interfere(f fault.Fault) error {
	lease := leases[f.Program]
	c.interfered = append(c.interfered, ledger.Meddling{Program: f.Program, At: time.Now()})
	args := []string{"delete", "lease", "-n", lease[0], lease[1]}
	if f.Kind == fault.GiveLease {
		now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
		args = []string{"patch", "lease", "-n", lease[0], lease[1], "--type=merge", "-p",
			fmt.Sprintf(`{"spec":{"holderIdentity":"somebody-else","acquireTime":%q,"renewTime":%q,"leaseDurationSeconds":%d}}`, now, now, int(fault.Lease.Seconds()))}
	}
	_, err := c.try("kubectl", args...)
	return err
}

// noRequests has the API server answer all requests of our accounts with 429: their priority level has no seats
// and no queue. Requests of leader election are not exempt.
const noRequests = `
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: chaos}
spec:
  type: Limited
  limited: {nominalConcurrencyShares: 0, lendablePercent: 0, borrowingLimitPercent: 0, limitResponse: {type: Reject}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: chaos}
spec:
  matchingPrecedence: 2
  priorityLevelConfiguration: {name: chaos}
  rules:
    - subjects:
        - {kind: Group, group: {name: "system:serviceaccounts:supercargo-system"}}
        - {kind: Group, group: {name: "system:serviceaccounts:supercargo-agent"}}
        - {kind: ServiceAccount, serviceAccount: {namespace: kube-system, name: supercargo-scheduler}}
      resourceRules:
        - {verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true, namespaces: ["*"]}
      nonResourceRules:
        - {verbs: ["*"], nonResourceURLs: ["*"]}
`

func (c *chaos) tooMany(f fault.Fault) error {
	c.apply(noRequests)
	err := c.lasts(f)
	_, gone := c.try("kubectl", "delete", "flowschema/chaos", "prioritylevelconfiguration/chaos")
	return errors.Join(err, gone)
}
