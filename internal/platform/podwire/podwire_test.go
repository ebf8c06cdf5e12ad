//go:build !kubernetes1.36

package podwire_test

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"supercargo.dev/supercargo/internal/cluster/gang"
	"supercargo.dev/supercargo/internal/platform/podwire"
	"supercargo.dev/supercargo/test/fixtures"
)

// inTrain puts a pod into the gang train, without what later versions have no field for.
func inTrain(p *corev1.Pod) { p.Spec.WorkloadRef = &corev1.WorkloadReference{Name: "train"} }

// later encodes an object of kind as an API server of 1.36 does, with the gang of a pod in field 43 of its spec. The
// libraries here write field 42, so later changes its tag wherever 11 bytes follow: the name as field 1, and the empty
// fields 2 and 3.
func later(t *testing.T, kind string, object runtime.Object) []byte {
	t.Helper()
	object.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	var out bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &out); err != nil {
		t.Fatal(err)
	}
	const follows = "\x0b\x0a\x05train\x12\x00\x1a\x00"
	return bytes.ReplaceAll(out.Bytes(), []byte("\xd2\x02"+follows), []byte("\xda\x02"+follows))
}

// event encodes an event of a watch, preceded by its length.
func event(t *testing.T, of watch.EventType, object []byte) []byte {
	t.Helper()
	data, err := (&metav1.WatchEvent{Type: string(of), Object: runtime.RawExtension{Raw: object}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}

// serve answers every request with the given parts and returns a client.
func serve(t *testing.T, contentType string, answer ...[]byte) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for _, part := range answer {
			if _, err := w.Write(part); err != nil {
				t.Error(err)
			}
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(podwire.Wrap(&rest.Config{
		Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestGangsOfLaterVersionsAreSeenInAnObjectAndInAList(t *testing.T) {
	alone, member := fixtures.Pod("alone", 100, 1<<20), fixtures.Pod("member", 100, 1<<20, inTrain)
	pods := serve(t, runtime.ContentTypeProtobuf, later(t, "Pod", member)).CoreV1().Pods("default")
	got, err := pods.Get(t.Context(), "member", metav1.GetOptions{})
	if err != nil || gang.Of(got) != "train" || got.Name != "member" {
		t.Errorf("the pod %v is in gang %q (%v), want train", got, gang.Of(got), err)
	}
	for _, namespace := range []string{"default", ""} {
		list := &corev1.PodList{Items: []corev1.Pod{*alone, *member, *alone}}
		list, err := serve(t, runtime.ContentTypeProtobuf, later(t, "PodList", list)).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var gangs []string
		for i := range list.Items {
			gangs = append(gangs, gang.Of(&list.Items[i]))
		}
		if want := []string{"", "train", ""}; !slices.Equal(gangs, want) {
			t.Errorf("namespace %q: the pods of the list are in gangs %q, want %q", namespace, gangs, want)
		}
	}
}

func TestGangsOfLaterVersionsAreSeenInAWatch(t *testing.T) {
	member := later(t, "Pod", fixtures.Pod("member", 100, 1<<20, inTrain))
	answer := slices.Concat(event(t, watch.Added, later(t, "Pod", fixtures.Pod("alone", 100, 1<<20))), event(t, watch.Modified, member))
	// The parts are not aligned with events.
	watched, err := serve(t, "application/vnd.kubernetes.protobuf;stream=watch", answer[:2], answer[2:100], answer[100:]).
		CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	var gangs []string
	for e := range watched.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("%s of %v", e.Type, e.Object)
		}
		gangs = append(gangs, string(e.Type)+" "+gang.Of(pod))
	}
	if want := []string{"ADDED ", "MODIFIED train"}; !slices.Equal(gangs, want) {
		t.Errorf("the events are of pods in gangs %q, want %q", gangs, want)
	}
}

// TestOthersAreReadAsTheyAre uses a ConfigMap that contains the bytes of such a pod.
func TestOthersAreReadAsTheyAre(t *testing.T) {
	data := later(t, "Pod", fixtures.Pod("member", 100, 1<<20, inTrain))
	sent := &corev1.ConfigMap{BinaryData: map[string][]byte{"pod": data}}
	got, err := serve(t, runtime.ContentTypeProtobuf, later(t, "ConfigMap", sent)).CoreV1().ConfigMaps("default").Get(t.Context(), "x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.BinaryData["pod"], data) {
		t.Error("the bytes of another object have changed")
	}
}

func TestWhatIsNotWellFormedIsHandedOn(t *testing.T) {
	whole := later(t, "Pod", fixtures.Pod("member", 100, 1<<20, inTrain))
	for _, cut := range []int{0, 3, 10, len(whole) / 2, len(whole) - 1} {
		_, err := serve(t, runtime.ContentTypeProtobuf, whole[:cut]).CoreV1().Pods("default").Get(t.Context(), "member", metav1.GetOptions{})
		if err == nil {
			t.Errorf("the first %d of %d bytes are taken for a pod", cut, len(whole))
		}
	}
	watched, err := serve(t, "application/vnd.kubernetes.protobuf;stream=watch", []byte("\xff\xff\xff\xff")).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	for e := range watched.ResultChan() {
		if e.Type != watch.Error {
			t.Errorf("an event of 4 GiB is taken for %v", e)
		}
	}
}
