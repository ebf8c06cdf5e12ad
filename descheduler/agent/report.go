package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent/agentdecide"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/internal/text/clip"
)

// maxMessage is the maximum length of a report's message, in bytes.
const maxMessage = 1024

// operation is one operation of a JSON patch. A report is replaced whole, and only if the UID
// matches: another Migration of the same name has another UID.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// reportSource writes the report of the source's agent. It returns the updated Migration, or nil
// if it is gone.
func (a *Agent) reportSource(ctx context.Context, m *v1alpha1.Migration, entry ledger.Entry, d agentdecide.SourceDecision) (*v1alpha1.Migration, error) {
	now := a.Clock.Now()
	report := v1alpha1.SourceReport{
		Step: d.Step, Time: metav1.NewMicroTime(now), Certificate: entry.Certificate, Requirements: entry.Requirements, MemoryBytes: entry.MemoryBytes,
		FrozenAt: microTime(entry.FrozenAt), ThawedAt: microTime(entry.ThawedAt),
		DumpSeconds: seconds(entry.Dump), DumpBytes: entry.DumpBytes,
		ShipSeconds: seconds(entry.Ship), ShipBytes: entry.ShipBytes, ShipTries: entry.ShipTries,
		Reason: d.Reason, Message: clip.Bytes(d.Message, maxMessage),
	}
	if before := m.Status.Source; before != nil && report.FrozenAt == nil {
		report.FrozenAt = before.FrozenAt // the ledger may have lost it
	}
	updated, err := a.patch(ctx, m, []operation{{"test", "/metadata/uid", m.UID}, {"add", "/status/source", report}})
	if err != nil || updated == nil {
		return updated, err
	}
	a.clearFailure(entry.ID)
	a.metrics.source(entry, d)
	a.recordEvent(ctx, m, entry.ID, string(d.Step), d.Reason, d.Message)
	return updated, nil
}

// reportTarget writes the report of the target's agent. The node with the reservation writes new
// reports; a node that lost it only updates its own report.
func (a *Agent) reportTarget(ctx context.Context, m *v1alpha1.Migration, entry ledger.Entry, d agentdecide.TargetDecision) (*v1alpha1.Migration, error) {
	report := v1alpha1.TargetReport{
		Node: entry.Node, Step: d.Step, Time: metav1.NewMicroTime(a.Clock.Now()), Reason: d.Reason, Message: clip.Bytes(d.Message, maxMessage),
	}
	if d.Step == v1alpha1.TargetPrepared || d.Step == v1alpha1.TargetStaged {
		address, err := a.nodes.address(entry.Node)
		if err != nil {
			return m, err
		}
		report.Address, report.Certificate = address, entry.Certificate
	}
	if entry.Staged != nil {
		report.Digest, report.StagedBytes = entry.Staged.Digest, entry.Staged.Bytes
	}
	mine := operation{"test", "/status/reservation/node", entry.Node}
	if m.Status.Reservation == nil || m.Status.Reservation.Node != entry.Node {
		mine = operation{"test", "/status/target/node", entry.Node}
	}
	updated, err := a.patch(ctx, m, []operation{{"test", "/metadata/uid", m.UID}, mine, {"add", "/status/target", report}})
	if err != nil || updated == nil {
		return updated, err
	}
	a.clearFailure(entry.ID)
	a.metrics.target(entry, d)
	a.recordEvent(ctx, m, entry.ID, string(d.Step), d.Reason, d.Message)
	return updated, nil
}

func (a *Agent) patch(ctx context.Context, m *v1alpha1.Migration, operations []operation) (*v1alpha1.Migration, error) {
	text, err := json.Marshal(operations)
	if err != nil {
		return m, fmt.Errorf("write the report to Migration %s/%s: %w", m.Namespace, m.Name, err)
	}
	updated := m.DeepCopy()
	err = a.api.Status().Patch(ctx, updated, client.RawPatch(types.JSONPatchType, text))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return m, fmt.Errorf("write the report to Migration %s/%s: %w", m.Namespace, m.Name, err)
	}
	return updated, nil
}

// recordEvent logs a report, and creates an Event for a failure.
func (a *Agent) recordEvent(ctx context.Context, m *v1alpha1.Migration, id ledger.ID, step, reason, message string) {
	log := a.Log.WithValues("migration", client.ObjectKeyFromObject(m), "node", id.Node, "role", id.Role, "step", step)
	if reason == "" {
		log.Info("Reported")
		return
	}
	log.Info("Reported", "reason", reason, "message", message)
	now := metav1.NewMicroTime(a.Clock.Now())
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, GenerateName: m.Name + "-"},
		EventTime:  now, ReportingController: v1alpha1.GroupName + "/node-agent", ReportingInstance: id.Node,
		Action: step, Reason: reason, Type: corev1.EventTypeWarning, Note: clip.Bytes(message, maxMessage),
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "Migration", Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		},
	}
	if err := a.api.Create(ctx, event); err != nil {
		log.Error(err, "Failed to create the Event; the report has the same message")
	}
}

// microTime returns nil for the zero time.
func microTime(t time.Time) *metav1.MicroTime {
	if t.IsZero() {
		return nil
	}
	m := metav1.NewMicroTime(t)
	return &m
}

// seconds formats a duration for a report; empty for 0.
func seconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 3, 64)
}

func joinHostPort(host, port string) string { return net.JoinHostPort(host, port) }

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
