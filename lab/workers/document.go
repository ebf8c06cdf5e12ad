package workers

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/jsondoc"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Document is the output of `supercargo workers -o json`. Scripts read it: fields may be added but
// never renamed.
type Document struct {
	Law   string `json:"law"`
	Tasks int    `json:"tasks"`
	// MakespanSeconds is the end of the last task.
	MakespanSeconds float64 `json:"makespanSeconds"`
	// WasteCoreSeconds and ShortageCoreSeconds are integrals: of the cores of connected workers
	// that no task occupied, and of the cores that waiting tasks requested.
	WasteCoreSeconds    float64 `json:"wasteCoreSeconds"`
	ShortageCoreSeconds float64 `json:"shortageCoreSeconds"`
	// LostCoreSeconds is the killed work, RestartedTasks the number of killed tasks.
	LostCoreSeconds float64 `json:"lostCoreSeconds"`
	RestartedTasks  int     `json:"restartedTasks"`
	// WorkersPeak is the maximum number of concurrently connected workers.
	WorkersPeak    int     `json:"workersPeak"`
	WorkersAdded   int     `json:"workersAdded"`
	WorkersDrained int     `json:"workersDrained"`
	WorkersKilled  int     `json:"workersKilled"`
	Resizes        int     `json:"resizes"`
	CostDollars    float64 `json:"costDollars"`
}

// NewDocument returns the document of a law's result with the given number of tasks.
func NewDocument(law string, tasks int, r Result) Document {
	const coreSecond = 1e6 // thousandths of a core times milliseconds
	return Document{
		Law: law, Tasks: tasks, MakespanSeconds: r.Makespan.Seconds(),
		WasteCoreSeconds:    float64(r.WasteMilliCoreMillis) / coreSecond,
		ShortageCoreSeconds: float64(r.ShortageMilliCoreMillis) / coreSecond,
		LostCoreSeconds:     float64(r.LostMilliCoreMillis) / coreSecond,
		RestartedTasks:      r.Restarted, WorkersPeak: r.Peak, WorkersAdded: r.Added, WorkersDrained: r.Drained, WorkersKilled: r.Killed,
		Resizes: r.Resizes, CostDollars: dollars.Of(r.MicroDollars),
	}
}

// WriteJSON writes the document as JSON.
func (d Document) WriteJSON(w io.Writer) error {
	return jsondoc.Write(w, d)
}

// WriteTable writes the document as a table.
func (d Document) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\t%s\n", d.Law, plural.Count(d.Tasks, "task"))
	for _, line := range [][2]string{
		{"makespan", fmt.Sprintf("%.1f s", d.MakespanSeconds)},
		{"waste", fmt.Sprintf("%.0f core·s", d.WasteCoreSeconds)},
		{"shortage", fmt.Sprintf("%.0f core·s", d.ShortageCoreSeconds)},
		{"lost", fmt.Sprintf("%.0f core·s of %s that %s killed", d.LostCoreSeconds, plural.Count(d.RestartedTasks, "task"), plural.Form(d.RestartedTasks, "was", "were"))},
		{"workers", fmt.Sprintf("%d at most, %d added, %d drained, %d killed in %s",
			d.WorkersPeak, d.WorkersAdded, d.WorkersDrained, d.WorkersKilled, plural.Count(d.Resizes, "resize"))},
		{"cost", fmt.Sprintf("$%.4f", d.CostDollars)},
	} {
		fmt.Fprintf(t, "%s\t%s\n", line[0], line[1])
	}
	return t.Flush()
}

// WriteDecisions writes a CSV row for each order that changed the number of workers.
func (r Result) WriteDecisions(w io.Writer) error {
	rows := csv.NewWriter(w)
	if err := rows.Write([]string{"time_s", "added", "drained", "killed", "reason"}); err != nil {
		return err
	}
	for _, d := range r.Decisions {
		err := rows.Write([]string{
			strconv.FormatFloat(d.At.Seconds(), 'f', 3, 64), strconv.Itoa(d.Order.Add),
			strings.Join(slices.Concat(d.Order.Delete, d.Order.Drain), ";"), strings.Join(d.Order.Kill, ";"), d.Order.Reason,
		})
		if err != nil {
			return err
		}
	}
	rows.Flush()
	return rows.Error()
}
