package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
	"supercargo.dev/supercargo/descheduler/checkpoint/transport"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/test/kit"
)

// wire is a migration whose source the test simulates: no agent runs for its node.
type wire struct {
	*bench
	m    *v1alpha1.Migration
	self transport.Identity
}

func newWire(t *testing.T, order v1alpha1.MigrationOrder) *wire {
	t.Helper()
	b := newBench(t)
	b.config.Limits.ImageBytes, b.config.Simulation.Model.MemoryFactor = 1<<20, 0.001
	b.start()
	w := &wire{bench: b, m: b.migrationFrom("elsewhere", b.pod("work"), v1alpha1.BackendSimulated), self: b.identity(time.Hour)}
	b.write(w.m, func(s *v1alpha1.MigrationStatus) {
		s.Source = &v1alpha1.SourceReport{
			Step: v1alpha1.SourceDumped, Time: metav1.NowMicro(), Certificate: w.self.Certificate,
			Requirements: capability.Requirements{Backend: v1alpha1.BackendSimulated}.Encode(),
		}
	})
	b.reserve(w.m, b.to)
	b.targetSays(w.m, v1alpha1.TargetPrepared)
	if order != v1alpha1.OrderPrepare {
		b.order(w.m, order)
	}
	return w
}

func (b *bench) identity(good time.Duration) transport.Identity {
	b.Helper()
	self, err := transport.NewIdentity("test", time.Now().Add(-2*time.Hour), time.Now().Add(good))
	if err != nil {
		b.Fatal(err)
	}
	return self
}

// checkpointOf returns an archive that a simulated target stages, with more additional bytes.
func checkpointOf(t testing.TB, more int) []byte {
	t.Helper()
	var out bytes.Buffer
	a := archive.NewWriter(&out)
	for _, part := range []string{archive.Config, archive.Spec, archive.Status} {
		if err := a.Bytes(part, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Bytes(archive.Checkpoint+"/modelled.json", []byte(`{"bytes":1000}`)); err != nil {
		t.Fatal(err)
	}
	if err := a.Bytes(archive.Checkpoint+"/pages.img", bytes.Repeat([]byte("x"), more)); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// send sends the content once, as an agent does.
func (w *wire) send(self transport.Identity, content []byte) error {
	w.Helper()
	target := w.m.Status.Target
	sender := transport.Sender{Clock: clock.RealClock{}, Tries: 1, Stalled: 10 * time.Second}
	_, err := sender.Send(w.Context(), self, transport.Peer{Address: target.Address, Certificate: target.Certificate, Migration: string(w.m.UID), Node: w.to},
		func(to io.Writer) error { _, err := to.Write(content); return err })
	return err
}

// stillPrepared checks that a rejected transfer has no effect, and that the right checkpoint is accepted
// afterwards.
func (w *wire) stillPrepared() {
	w.Helper()
	if err := w.send(w.self, checkpointOf(w, 0)); err != nil {
		w.Errorf("the right checkpoint is refused afterwards: %v", err)
	}
	if r := w.targetSays(w.m, v1alpha1.TargetStaged); r.StagedBytes != 1000 || r.Digest == "" {
		w.Errorf("the target says %+v", r)
	}
}

func TestTargetTakesFromItsSourceOnly(t *testing.T) {
	w := newWire(t, v1alpha1.OrderFreeze)
	if err := w.send(w.identity(time.Hour), checkpointOf(t, 0)); err == nil {
		t.Error("a checkpoint was taken from somebody else")
	}
	w.stillPrepared()
}

func TestTargetRefusesACertificateWhoseTimeIsOver(t *testing.T) {
	w := newWire(t, v1alpha1.OrderFreeze)
	expired := w.identity(-time.Minute)
	right := w.m.Status.Source.Certificate
	w.write(w.m, func(s *v1alpha1.MigrationStatus) { s.Source.Certificate = expired.Certificate })
	if err := w.send(expired, checkpointOf(t, 0)); err == nil {
		t.Error("a checkpoint was taken with a certificate whose time is over")
	}
	w.write(w.m, func(s *v1alpha1.MigrationStatus) { s.Source.Certificate = right })
	w.stillPrepared()
}

func TestTargetTakesNothingBeforeFreezeIsOrdered(t *testing.T) {
	w := newWire(t, v1alpha1.OrderPrepare)
	if err := w.send(w.self, checkpointOf(t, 0)); err == nil {
		t.Error("a checkpoint was taken before the order")
	}
	w.order(w.m, v1alpha1.OrderFreeze)
	w.stillPrepared()
}

func TestTargetRefusesWhatWasAltered(t *testing.T) {
	w := newWire(t, v1alpha1.OrderFreeze)
	for name, sum := range map[string]string{"another checksum": "xxh64:00", "no checksum": ""} {
		if code := w.put(io.MultiReader(bytes.NewReader(nil)), sum); code != http.StatusConflict {
			t.Errorf("%s: the answer is %d, want %d", name, code, http.StatusConflict)
		}
	}
	w.stillPrepared()
}

// put sends a body unchanged.
func (w *wire) put(body io.Reader, sum string) int {
	w.Helper()
	pair, err := tls.X509KeyPair([]byte(w.self.Certificate), []byte(w.self.Key))
	if err != nil {
		w.Fatal(err)
	}
	request, err := http.NewRequestWithContext(w.Context(), http.MethodPut, "https://"+w.m.Status.Target.Address+"/v2/checkpoints/"+string(w.m.UID), body)
	if err != nil {
		w.Fatal(err)
	}
	request.Trailer = http.Header{"Checkpoint-Sum": {sum}}
	connection := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, ServerName: string(w.m.UID) + "." + w.to,
	}}
	response, err := connection.RoundTrip(request)
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

func TestTargetSaysWhenACheckpointIsTooLarge(t *testing.T) {
	w := newWire(t, v1alpha1.OrderFreeze)
	err := w.send(w.self, checkpointOf(t, 2<<20))
	if f := checkpoint.AsFailure(err); f == nil || f.Reason != v1alpha1.MigrationReasonTooLarge {
		t.Errorf("sending gives %v, want reason TooLarge", err)
	}
	if r := w.targetSays(w.m, v1alpha1.TargetFailed); r.Reason != v1alpha1.MigrationReasonTooLarge || r.Message == "" {
		t.Errorf("the target says %+v, want reason TooLarge", r)
	}
}

func TestTargetTakesTheSameCheckpointTwiceAndNoOther(t *testing.T) {
	w := newWire(t, v1alpha1.OrderFreeze)
	content := checkpointOf(t, 10)
	for range 2 { // the second time as if the first answer had been lost
		if err := w.send(w.self, content); err != nil {
			t.Fatal(err)
		}
	}
	digest := w.targetSays(w.m, v1alpha1.TargetStaged).Digest
	for range 10 { // in case the last report is of the other connection
		if err := w.send(w.self, checkpointOf(t, 11)); err == nil {
			t.Fatal("another checkpoint took the place of the one that is being restored")
		}
		if err := w.send(w.self, content); err != nil {
			t.Fatalf("after another checkpoint, the one that is staged is refused: %v", err)
		}
	}
	if r := w.targetSays(w.m, v1alpha1.TargetStaged); r.Digest != digest {
		t.Errorf("the digest was %s and is %s", digest, r.Digest)
	}
}

func TestTargetStopsTakingWhenThawIsOrdered(t *testing.T) {
	w := newWire(t, v1alpha1.OrderFreeze)
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	target := w.m.Status.Target
	begun := make(chan struct{})
	sent := make(chan error, 1)
	go func() {
		sender := transport.Sender{Clock: clock.RealClock{}, Tries: 1, Stalled: kit.Patience}
		_, err := sender.Send(ctx, w.self, transport.Peer{Address: target.Address, Certificate: target.Certificate, Migration: string(w.m.UID), Node: w.to},
			func(to io.Writer) error {
				_, err := to.Write(checkpointOf(t, 0)[:1024])
				close(begun)
				<-ctx.Done() // the rest never comes
				return err
			})
		sent <- err
	}()
	<-begun
	w.Eventually("the target unpacks what has come", func() string {
		if dirs, err := filepath.Glob(filepath.Join(w.config.StateDir, "simulated", "stage*")); err != nil || len(dirs) == 0 {
			return fmt.Sprintf("no folder for it: %v", err)
		}
		return ""
	})
	w.order(w.m, v1alpha1.OrderThaw)
	w.targetSays(w.m, v1alpha1.TargetCleaned)
	cancel()
	if err := <-sent; err == nil {
		t.Error("half a checkpoint was taken")
	}
}
