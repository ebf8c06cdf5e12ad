package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Refused is a controller whose pods the API server refused to create, for example because of a quota or an admission
// webhook. There is no pod that could be explained.
type Refused struct {
	// Controller is its kind and name, such as ReplicaSet shop/web-5d.
	Controller string `json:"controller"`
	Namespace  string `json:"namespace"`
	// Time is when the last Event about it was recorded, and Message is what that says. Times is the number of
	// refusals.
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
	Times   int32     `json:"times"`
}

// failedCreate is the reason of Events of controllers that could not create a pod.
const failedCreate = "FailedCreate"

// refusedPods returns the controllers that could not create pods, the latest first, from Events in any order.
func refusedPods(events []corev1.Event) (all []Refused) {
	by := map[string]*Refused{}
	for i := range events {
		e := &events[i]
		if e.Reason != failedCreate {
			continue
		}
		of := e.InvolvedObject
		name := fmt.Sprintf("%s %s/%s", of.Kind, of.Namespace, of.Name)
		r := by[name]
		if r == nil {
			r = &Refused{Controller: name, Namespace: of.Namespace}
			by[name] = r
		}
		r.Times += times(e)
		if at := EventTime(e); !at.Before(r.Time) {
			r.Time, r.Message = at, e.Message
		}
	}
	for _, r := range by {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b Refused) int { return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Controller, b.Controller)) })
	return all
}

// times returns how often an Event was observed.
func times(e *corev1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return max(e.Count, 1)
}

// NeverCreated describes the last refusal to create a pod of a controller to whose pods a name may belong, or returns
// "". Pods are named after their controllers.
func NeverCreated(all []Refused, pod string) string {
	for _, r := range all {
		_, controller, _ := strings.Cut(r.Controller, "/")
		if controller == pod || strings.HasPrefix(pod, controller+"-") || strings.HasPrefix(controller, pod+"-") {
			return fmt.Sprintf("; %s could not create a pod at %s: %s", r.Controller, clockOf(r.Time), r.Message)
		}
	}
	return ""
}

func writeRefused(w io.Writer, all []Refused) error {
	if len(all) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nPods that could not be created, by the Events of their controllers:")
	fmt.Fprintln(t, "CONTROLLER\tTIMES\tLAST AT\tWHY")
	for _, r := range all {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", r.Controller, r.Times, clockOf(r.Time), r.Message)
	}
	return t.Flush()
}
