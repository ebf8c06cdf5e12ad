package rightsize

import (
	"fmt"
	"io"
	"text/tabwriter"

	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// Document is the output of `supercargo rightsize -o json`. Scripts read it: fields may be added but never renamed.
type Document struct {
	// Stated is the stated risk: the share of the intervals of machines in which a resource may be overloaded.
	Stated   Shares           `json:"stated"`
	Policies []PolicyDocument `json:"policies"`
	// Entities is the number of entities, and JudgedIntervals how many intervals the figures are of.
	Entities        int      `json:"entities"`
	JudgedIntervals int      `json:"judgedIntervals"`
	Measured        Measured `json:"measured"`
}

// Shares is a share for each resource.
type Shares struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
}

// Measured says which resources were measured. Requests of others stay as they are, and their overload is 0.
type Measured struct {
	CPU    bool `json:"cpu"`
	Memory bool `json:"memory"`
}

// PolicyDocument is the result of one policy.
type PolicyDocument struct {
	Name string `json:"name"`
	// Machines is the mean number of machines.
	Machines       float64 `json:"machines"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
	// Overload is the share of the intervals of machines in which entities used more than the machine has.
	Overload           Shares `json:"overload"`
	OverloadedMachines int    `json:"overloadedMachines"`
	Resizes            int    `json:"resizes"`
	Moves              int    `json:"moves"`
}

// NewDocument returns the document of results in their order.
func NewDocument(c Config, stated Amounts, results []*Result) Document {
	d := Document{
		Stated: Shares{stated[CPU], stated[Memory]}, Policies: []PolicyDocument{}, Entities: len(c.Trace.Entities),
		JudgedIntervals: c.Trace.Intervals - c.Trace.interval(c.TrainUntil), Measured: Measured{c.Trace.Measured[CPU], c.Trace.Measured[Memory]},
	}
	for _, r := range results {
		d.Policies = append(d.Policies, PolicyDocument{
			Name: r.Policy, Machines: r.Machines, DollarsPerHour: r.MicroDollarsPerHour / 1e6,
			Overload: Shares{r.Overload(CPU), r.Overload(Memory)}, OverloadedMachines: r.OverloadedMachines,
			Resizes: r.Resizes, Moves: r.Moves,
		})
	}
	return d
}

// WriteJSON writes the document as JSON.
func (d Document) WriteJSON(w io.Writer) error { return jsondoc.Write(w, d) }

// WriteTable writes the document as a table.
func (d Document) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "stated: a machine is overloaded in at most %s of the intervals by CPU, %s by memory\n", percent(d.Stated.CPU), percent(d.Stated.Memory))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "policy\tmachines\t$/h\tof requests\tCPU overload\tmemory overload\tmachines overloaded\tresizes\tmoves\t\n")
	for _, p := range d.Policies {
		fmt.Fprintf(t, "%s\t%.1f\t%.4f\t%s\t%s\t%s\t%d\t%d\t%d\t\n", p.Name, p.Machines, p.DollarsPerHour, d.ofRequests(p),
			d.overload(d.Measured.CPU, p.Overload.CPU), d.overload(d.Measured.Memory, p.Overload.Memory), p.OverloadedMachines, p.Resizes, p.Moves)
	}
	return t.Flush()
}

// ofRequests returns the cost of a policy as a share of that of the requests as they are.
func (d Document) ofRequests(p PolicyDocument) string {
	for _, q := range d.Policies {
		if q.Name == (Requested{}).Name() && q.DollarsPerHour > 0 {
			return fmt.Sprintf("%.0f %%", 100*p.DollarsPerHour/q.DollarsPerHour)
		}
	}
	return "-"
}

func (d Document) overload(measured bool, share float64) string {
	if !measured {
		return "not measured"
	}
	return percent(share)
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }
