// Package attempts remembers on a pod how many Migrations of it have failed. Migrations
// that have ended are deleted after a while, and at once where the descheduler is told to
// keep none. Without that memory a pod that cannot be moved would be frozen and thawed
// without end.
//
// Nothing here writes: the functions return the pod as it is to be written.
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

// Annotation is on a pod whose Migrations have failed: a [Record] as JSON. It does not
// follow the pod to another node.
const Annotation = v1alpha1.GroupName + "/migration-attempts"

const (
	// Lasts is how long failures count after the last of them. What made them fail, such as
	// an image that the target lacks, may be mended by then.
	Lasts = 24 * time.Hour
	// most bounds a count.
	most = 1000
)

// Requester is one of those who make Migrations by themselves. Their failures are counted
// apart, and those of Migrations that others make, such as people, are not.
type Requester string

const (
	// Eviction makes a Migration of an eviction.
	Eviction Requester = "evict"
	// Drain empties a node.
	Drain Requester = "drain"
)

// Name returns the name of a Migration of a pod by a requester. number tells it from others
// of the same pod.
func Name(by Requester, pod types.UID, number int) string {
	return fmt.Sprintf("%s-%s-%d", by, pod, number)
}

// Number returns the number in the name of a Migration; false if it is not one of that
// pod by that requester.
func Number(name string, by Requester, pod types.UID) (int, bool) {
	text, ok := strings.CutPrefix(name, fmt.Sprintf("%s-%s-", by, pod))
	number, err := strconv.Atoi(text)
	return number, ok && err == nil && number >= 0
}

// Record is what is remembered.
type Record struct {
	// Last is the UID of the Migration that was counted last, At when it failed.
	Last types.UID   `json:"last"`
	At   metav1.Time `json:"at"`
	// Failed is how many have failed, by who made them.
	Failed map[Requester]int `json:"failed"`
}

// read returns the record of a pod that still counts. One that cannot be read is none: it
// is overwritten when the next Migration fails.
func read(pod *corev1.Pod, now time.Time) Record {
	var r Record
	if err := json.Unmarshal([]byte(pod.Annotations[Annotation]), &r); err != nil || !now.Before(r.At.Add(Lasts)) {
		return Record{}
	}
	return r
}

// Failed returns how many Migrations of a pod by a requester have failed.
func Failed(pod *corev1.Pod, by Requester, now time.Time) int {
	return min(max(read(pod, now).Failed[by], 0), most)
}

// Note returns a pod that remembers that a Migration of it has failed; nil if it does so
// already, or if nobody asks how many have.
func Note(pod *corev1.Pod, m *v1alpha1.Migration, now time.Time) *corev1.Pod {
	r := read(pod, now)
	by := requester(m, pod.UID)
	if by == "" || r.Last == m.UID {
		return nil
	}
	next := Record{Last: m.UID, At: metav1.NewTime(now), Failed: map[Requester]int{}}
	for _, each := range []Requester{Eviction, Drain} { // and no others that somebody may have written
		if n := min(max(r.Failed[each], 0), most); n > 0 {
			next.Failed[each] = n
		}
	}
	next.Failed[by] = min(next.Failed[by]+1, most)
	text, err := json.Marshal(next)
	if err != nil {
		return nil // strings, numbers and a time can be written
	}
	to := pod.DeepCopy()
	if to.Annotations == nil {
		to.Annotations = map[string]string{}
	}
	to.Annotations[Annotation] = string(text)
	return to
}

// requester returns who has made a Migration of a pod; empty if somebody else has.
func requester(m *v1alpha1.Migration, pod types.UID) Requester {
	for _, by := range []Requester{Eviction, Drain} {
		if _, ok := Number(m.Name, by, pod); ok {
			return by
		}
	}
	return ""
}
