package worker

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workerdecide"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
)

// maxKept bounds the categories and the initialisation times in a status.
const maxKept = 100

// recall restores the memory from a status. The status has only the mean of the runtimes, so each runtime becomes the
// mean.
func recall(s *v1alpha1.WorkerPoolStatus) workerdecide.Memory {
	var m workerdecide.Memory
	if s.Queue != nil {
		m.Queue.Project = s.Queue.Project
		if s.Queue.Started != nil {
			m.Queue.Started = s.Queue.Started.UTC()
		}
	}
	if s.SilentSince != nil {
		m.SilentSince = s.SilentSince.Time
	}
	if s.GoneSince != nil {
		m.GoneSince = s.GoneSince.Time
	}
	if s.Resized != nil {
		m.Resized = s.Resized.Time
	}
	for i := range s.Categories {
		m.Categories = append(m.Categories, recallCategory(&s.Categories[i]))
	}
	slices.SortFunc(m.Categories, func(a, b workerdecide.Category) int { return cmp.Compare(a.Name, b.Name) })
	for i := range s.InitTimes {
		t := &s.InitTimes[i]
		if t.Mean.Duration < 0 || t.Samples <= 0 {
			continue // the status was edited
		}
		m.InitTimes = append(m.InitTimes, workerdecide.InitTime{
			Flavor: t.Flavor, Mean: t.Mean.Duration, Deviation: t.Deviation.Duration, Node: t.Node.Duration, Image: t.Image.Duration, Connect: t.Connect.Duration, Samples: t.Samples,
		})
	}
	slices.SortFunc(m.InitTimes, func(a, b workerdecide.InitTime) int { return cmp.Compare(a.Flavor, b.Flavor) })
	return m
}

func recallCategory(c *v1alpha1.TaskCategory) workerdecide.Category {
	out := workerdecide.Category{
		Name: c.Name, Source: workerdecide.NeedSource(c.Source), Ended: c.Ended,
		Need: estimate.Resources{MilliCores: c.CPU.MilliValue(), MemoryBytes: c.Memory.Value(), GPUs: c.GPUs},
	}
	if c.Disk != nil {
		out.Need.DiskBytes = c.Disk.Value()
	}
	if u := c.Used; u != nil {
		out.Used = estimate.Resources{MilliCores: valueOf(u.CPU).MilliValue(), MemoryBytes: valueOf(u.Memory).Value(), DiskBytes: valueOf(u.Disk).Value()}
	}
	if c.MeanRuntime != nil && c.MeanRuntime.Duration > 0 {
		for range min(max(0, c.Samples), workerdecide.MaxRecent) {
			out.Recent = append(out.Recent, c.MeanRuntime.Duration)
		}
	}
	return out
}

// keep stores the memory in the status. If there are too many categories, those with the most ended tasks are kept.
func keep(s *v1alpha1.WorkerPoolStatus, m *workerdecide.Memory, unplaceable []workerdecide.Unplaceable) {
	keepResized(s, m.Resized)
	s.SilentSince, s.GoneSince = instant(m.SilentSince), instant(m.GoneSince)
	categories := slices.Clone(m.Categories)
	slices.SortStableFunc(categories, func(a, b workerdecide.Category) int { return cmp.Compare(b.Ended, a.Ended) })
	categories = categories[:min(len(categories), maxKept)]
	slices.SortFunc(categories, func(a, b workerdecide.Category) int { return cmp.Compare(a.Name, b.Name) })
	s.Categories = nil
	for i := range categories {
		s.Categories = append(s.Categories, keepCategory(&categories[i], unplaceable))
	}
	s.InitTimes = nil
	for _, t := range m.InitTimes[:min(len(m.InitTimes), maxKept)] {
		s.InitTimes = append(s.InitTimes, v1alpha1.WorkerInitTime{
			Flavor: t.Flavor, Mean: rounded(t.Mean), Deviation: rounded(t.Deviation), Node: rounded(t.Node), Image: rounded(t.Image), Connect: rounded(t.Connect), Samples: t.Samples,
		})
	}
}

// instant returns a time for a status; nil if t is zero.
func instant(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t))
}

func keepResized(s *v1alpha1.WorkerPoolStatus, at time.Time) {
	if s.Resized = nil; !at.IsZero() {
		s.Resized = new(metav1.NewMicroTime(at))
	}
}

func keepCategory(c *workerdecide.Category, unplaceable []workerdecide.Unplaceable) v1alpha1.TaskCategory {
	out := v1alpha1.TaskCategory{
		Name: c.Name, CPU: *resource.NewMilliQuantity(c.Need.MilliCores, resource.DecimalSI), Memory: *resource.NewQuantity(c.Need.MemoryBytes, resource.BinarySI),
		GPUs: c.Need.GPUs, Source: string(c.Source), Samples: int32(len(c.Recent)), Ended: c.Ended,
	}
	if c.Need.DiskBytes > 0 && c.Need.DiskBytes < workerdecide.Boundless {
		out.Disk = resource.NewQuantity(c.Need.DiskBytes, resource.BinarySI)
	}
	if used := c.Used; used != (estimate.Resources{}) {
		out.Used = &v1alpha1.TaskUse{
			CPU: quantity(used.MilliCores, resource.Milli, resource.DecimalSI), Memory: quantity(used.MemoryBytes, 0, resource.BinarySI), Disk: quantity(used.DiskBytes, 0, resource.BinarySI),
		}
	}
	if len(c.Recent) > 0 {
		out.MeanRuntime = new(rounded(c.Mean()))
	}
	for _, u := range unplaceable {
		if u.Category == c.Name && out.Unplaceable == "" {
			out.Unplaceable = clip.Bytes(u.Reason, conditions.MaxMessage)
		}
	}
	return out
}

// quantity returns n at a scale as a quantity, or nil if n is 0.
func quantity(n int64, scale resource.Scale, format resource.Format) *resource.Quantity {
	if n == 0 {
		return nil
	}
	q := resource.NewScaledQuantity(n, scale)
	q.Format = format
	return q
}

// valueOf returns an optional quantity, or zero if it is nil.
func valueOf(q *resource.Quantity) *resource.Quantity {
	if q == nil {
		return &resource.Quantity{}
	}
	return q
}

func rounded(d time.Duration) metav1.Duration {
	return metav1.Duration{Duration: d.Round(time.Millisecond)}
}

// inCores writes thousandths of a core as cores.
func inCores(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }
