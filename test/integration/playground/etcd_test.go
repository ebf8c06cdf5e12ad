package playground

import (
	"bytes"
	"testing"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit/testfile"
)

const auditAll = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}`

func TestObjectsSurviveARestartOfEtcd(t *testing.T) {
	p := playground.ForTest(t, playground.Options{Nodes: playground.Fleet(1), AuditPolicy: []byte(auditAll)})
	createPod(t, p, newPod("before"))
	awaitPod(t, p, "before", isRunning)
	if err := p.StopEtcd(); err != nil {
		t.Fatal(err)
	}
	if err := p.StopEtcd(); err == nil {
		t.Error("etcd is stopped twice")
	}
	if err := p.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, p, "before", isRunning)
	createPod(t, p, newPod("after"))
	awaitPod(t, p, "after", isRunning)

	log := testfile.Read(t, p.AuditLogPath())
	for _, want := range []string{`"verb":"create","user":`, `"resource":"pods","namespace":"default","name":"after"`} {
		if !bytes.Contains(log, []byte(want)) {
			t.Errorf("the audit log has no %s", want)
		}
	}
}
