package surroundings

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "jobs", Name: name, UID: "uid-of-it"}
}

// clusterOf returns a cluster with objects of each kind, in this namespace and in another. Reads of the kind fails do not
// succeed; empty for none.
func clusterOf(fails string) client.Reader {
	elsewhere := metav1.ObjectMeta{Namespace: "other", Name: "data"}
	broken := func(o any) error {
		if fails != "" && kindOf(o) == fails {
			return errors.New("no answer")
		}
		return nil
	}
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(
		&batchv1.Job{ObjectMeta: named("work")}, &appsv1.ReplicaSet{ObjectMeta: named("web")},
		&corev1.PersistentVolumeClaim{ObjectMeta: named("data")}, &corev1.PersistentVolumeClaim{ObjectMeta: named("unused")}, &corev1.PersistentVolumeClaim{ObjectMeta: elsewhere},
		&corev1.Service{ObjectMeta: named("front")}, &corev1.Service{ObjectMeta: elsewhere},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
	).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, more ...client.GetOption) error {
			return errors.Join(broken(o), c.Get(ctx, key, o, more...))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, more ...client.ListOption) error {
			return errors.Join(broken(list), c.List(ctx, list, more...))
		},
	}).Build()
}

func kindOf(o any) string {
	switch o.(type) {
	case *batchv1.Job:
		return "Job"
	case *corev1.PersistentVolumeClaim:
		return "claim"
	case *corev1.ServiceList:
		return "Services"
	}
	return "nodes"
}

// podOf returns a pod of a controller with two claims, of which one does not exist.
func podOf(kind, name, uid string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: named("pod")}
	if kind != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: "uid-of-it", Controller: new(true)}}
		if uid != "" {
			pod.OwnerReferences[0].UID = "another"
		}
	}
	for _, claim := range []string{"data", "gone"} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return pod
}

func TestWhatIsAroundAPodIsGathered(t *testing.T) {
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		job, set bool
	}{
		"of a Job":                          {podOf("Job", "work", ""), true, false},
		"of a ReplicaSet":                   {podOf("ReplicaSet", "web", ""), false, true},
		"of a Job with the name of its own": {podOf("Job", "work", "another"), false, false},
		"of a set with the name of its own": {podOf("ReplicaSet", "web", "another"), false, false},
		"of a Job that is gone":             {podOf("Job", "absent", ""), false, false},
		"of another kind":                   {podOf("StatefulSet", "db", ""), false, false},
		"bare":                              {podOf("", "", ""), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := Of(t.Context(), ReadAll(clusterOf("")), tc.pod)
			if err != nil {
				t.Fatal(err)
			}
			if (in.Job != nil) != tc.job || (in.ReplicaSet != nil) != tc.set {
				t.Errorf("Job %v and ReplicaSet %v, want %t and %t", in.Job, in.ReplicaSet, tc.job, tc.set)
			}
			var services []string
			for i := range in.Services {
				services = append(services, in.Services[i].Namespace+"/"+in.Services[i].Name)
			}
			got := [][]string{slices.Sorted(maps.Keys(in.Claims)), services, slices.Sorted(maps.Keys(in.Nodes))}
			if diff := cmp.Diff([][]string{{"data"}, {"jobs/front"}, {"a", "b"}}, got); diff != "" || in.Pod != tc.pod {
				t.Errorf("claims, Services and nodes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNothingIsGatheredIfAReadFails(t *testing.T) {
	for _, kind := range []string{"Job", "claim", "Services", "nodes"} {
		if _, err := Of(t.Context(), ReadAll(clusterOf(kind)), podOf("Job", "work", "")); err == nil {
			t.Errorf("without %s: no error", kind)
		}
	}
}
