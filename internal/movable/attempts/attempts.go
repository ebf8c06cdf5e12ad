// Package attempts records on a pod how many of its Migrations have failed. Finished Migrations are deleted after a
// while, or at once if the descheduler is configured to keep none. Without the record, a pod that cannot be moved would
// be frozen and thawed again and again.
//
// The package does not write to the API: its functions return the pod to write.
package attempts

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Annotation holds the failed Migrations of a pod: a [Record] as JSON. It is not copied to the new pod of a move.
const Annotation = v1alpha1.GroupName + "/migration-attempts"

const (
	// Lasts is how long failures count after the last one. The cause, such as an image that the target lacks, may be
	// fixed by then.
	Lasts = 24 * time.Hour
	// most bounds a count.
	most = 1000
)

// Requester is a component that creates Migrations automatically. Failures are counted per requester. Those of other
// Migrations, such as manual ones, are not counted.
type Requester string

const (
	// Eviction turns evictions into Migrations.
	Eviction Requester = "evict"
	// Drain drains nodes.
	Drain Requester = "drain"
)

// Name returns the name of a requester's Migration of a pod. number distinguishes Migrations of the same pod.
func Name(by Requester, pod types.UID, number int) string {
	return fmt.Sprintf("%s-%s-%d", by, pod, number)
}

// Number returns the number in the name of a Migration, or false if it is not a Migration of that pod by that
// requester.
func Number(name string, by Requester, pod types.UID) (int, bool) {
	text, ok := strings.CutPrefix(name, fmt.Sprintf("%s-%s-", by, pod))
	number, err := strconv.Atoi(text)
	return number, ok && err == nil && number >= 0
}

// Record is the content of the annotation.
type Record struct {
	// Last is the UID of the Migration that was counted last, At is when it failed.
	Last types.UID   `json:"last"`
	At   metav1.Time `json:"at"`
	// Failed is the number of failed Migrations by requester.
	Failed map[Requester]int `json:"failed"`
}

// read returns the record of a pod, or an empty one if it has expired or is malformed. A malformed record is
// overwritten when the next Migration fails.
func read(pod *corev1.Pod, now time.Time) Record {
	var r Record
	if err := json.Unmarshal([]byte(pod.Annotations[Annotation]), &r); err != nil || !now.Before(r.At.Add(Lasts)) {
		return Record{}
	}
	return r
}

// Failed returns how many Migrations of the pod by the requester have failed.
func Failed(pod *corev1.Pod, by Requester, now time.Time) int {
	return min(max(read(pod, now).Failed[by], 0), most)
}

// Note returns the pod with a record of the failed Migration m. It returns nil if m is already recorded or was created
// by no [Requester].
func Note(pod *corev1.Pod, m *v1alpha1.Migration, now time.Time) *corev1.Pod {
	r := read(pod, now)
	by := requester(m, pod.UID)
	if by == "" || r.Last == m.UID {
		return nil
	}
	next := Record{Last: m.UID, At: metav1.NewTime(now), Failed: map[Requester]int{}}
	for _, each := range []Requester{Eviction, Drain} { // drop unknown requesters
		if n := min(max(r.Failed[each], 0), most); n > 0 {
			next.Failed[each] = n
		}
	}
	next.Failed[by] = min(next.Failed[by]+1, most)
	text, err := json.Marshal(next)
	if err != nil {
		return nil // strings, numbers and a time can always be encoded
	}
	to := pod.DeepCopy()
	if to.Annotations == nil {
		to.Annotations = map[string]string{}
	}
	to.Annotations[Annotation] = string(text)
	return to
}

// requester returns the requester that created the Migration of the pod, or "" if there is none.
func requester(m *v1alpha1.Migration, pod types.UID) Requester {
	for _, by := range []Requester{Eviction, Drain} {
		if _, ok := Number(m.Name, by, pod); ok {
			return by
		}
	}
	return ""
}
