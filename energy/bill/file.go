package bill

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"supercargo.dev/supercargo/energy"
)

// Format is the version of the file format. A change that older programs would misread gets another number.
const Format = "supercargo-energy/1"

// File is the saved form of the observations of a cluster.
type File struct {
	Format string `json:"format"`
	// PowerFrom is the preset or query with which power was read.
	PowerFrom string      `json:"powerFrom,omitempty"`
	Slices    []fileSlice `json:"slices"`
}

type fileSlice struct {
	From  time.Time  `json:"from"`
	To    time.Time  `json:"to"`
	Nodes []fileNode `json:"nodes"`
	Pods  []filePod  `json:"pods,omitempty"`
}

type fileNode struct {
	Node           string  `json:"node"`
	MachineType    string  `json:"machineType,omitempty"`
	Zone           string  `json:"zone,omitempty"`
	Cores          float64 `json:"cores,omitempty"`
	MeasuredJoules float64 `json:"measuredJoules"`
	ModelledJoules float64 `json:"modelledJoules"`
	CoveredSeconds float64 `json:"coveredSeconds"`
}

type filePod struct {
	Namespace      string   `json:"namespace"`
	Pod            string   `json:"pod"`
	Workload       string   `json:"workload,omitempty"`
	Node           string   `json:"node"`
	RequestedCores float64  `json:"requestedCores"`
	UsedCores      *float64 `json:"usedCores,omitempty"` // absent if unknown
}

// Write writes observations for [ReadFile].
func Write(to io.Writer, powerFrom string, observed []Slice) error {
	f := File{Format: Format, PowerFrom: powerFrom, Slices: make([]fileSlice, 0, len(observed))}
	for _, s := range observed {
		out := fileSlice{From: s.From.UTC(), To: s.To.UTC(), Nodes: []fileNode{}}
		for _, n := range s.Nodes {
			out.Nodes = append(out.Nodes, fileNode{
				Node: n.Name, MachineType: n.MachineType, Zone: n.Zone, Cores: n.Cores, MeasuredJoules: float64(n.Energy.Measured),
				ModelledJoules: float64(n.Energy.Modelled), CoveredSeconds: n.Energy.Covered.Seconds(),
			})
		}
		for _, p := range s.Pods {
			out.Pods = append(out.Pods, filePod{Namespace: p.Namespace, Pod: p.Name, Workload: p.Workload, Node: p.Node, RequestedCores: p.Requested, UsedCores: p.Used})
		}
		f.Slices = append(f.Slices, out)
	}
	return json.NewEncoder(to).Encode(f)
}

// ReadFile reads observations and how power was read. It rejects unknown fields, amounts that are negative or not
// finite, nodes that occur twice in a slice, and slices that overlap or are out of order. Errors name the slice,
// counted from 0, and the field.
func ReadFile(file io.Reader) (powerFrom string, observed []Slice, err error) {
	decoder := json.NewDecoder(file)
	decoder.DisallowUnknownFields()
	var f File
	if err := decoder.Decode(&f); err != nil {
		return "", nil, fmt.Errorf("at byte %d: %w", decoder.InputOffset(), err)
	}
	if f.Format != Format {
		return "", nil, fmt.Errorf("format %q: must be %q", f.Format, Format)
	}
	var last time.Time
	for i, s := range f.Slices {
		if !s.To.After(s.From) || s.From.Before(last) || !sane(s.From) || !sane(s.To) {
			return "", nil, fmt.Errorf("slices[%d]: from %s to %s: slices must be in ascending order of time, each with an end after its start",
				i, s.From.Format(time.RFC3339), s.To.Format(time.RFC3339))
		}
		last = s.To
		read, err := s.read()
		if err != nil {
			return "", nil, fmt.Errorf("slices[%d].%w", i, err)
		}
		observed = append(observed, read)
	}
	return f.PowerFrom, observed, nil
}

// sane reports whether differences of such times fit into time.Duration.
func sane(t time.Time) bool { return t.Year() >= 1970 && t.Year() < 2200 }

func (s fileSlice) read() (Slice, error) {
	span := s.To.Sub(s.From)
	out := Slice{From: s.From, To: s.To}
	seen := map[string]bool{}
	for i, n := range s.Nodes {
		if n.Node == "" || seen[n.Node] {
			return out, fmt.Errorf("nodes[%d].node %q: must be a unique name", i, n.Node)
		}
		seen[n.Node] = true
		err := errors.Join(amount("cores", n.Cores, 1e6), amount("measuredJoules", n.MeasuredJoules, mostJoules), amount("modelledJoules", n.ModelledJoules, mostJoules),
			amount("coveredSeconds", n.CoveredSeconds, span.Seconds()))
		if err != nil {
			return out, fmt.Errorf("nodes[%d] %s: %w", i, n.Node, err)
		}
		covered := time.Duration(n.CoveredSeconds * float64(time.Second))
		out.Nodes = append(out.Nodes, Node{Name: n.Node, MachineType: n.MachineType, Zone: n.Zone, Cores: n.Cores, Energy: energy.Usage{
			Measured: energy.Joules(n.MeasuredJoules), Modelled: energy.Joules(n.ModelledJoules), Covered: covered, Gaps: max(0, span-covered),
		}})
	}
	pods := map[filePod]bool{}
	for i, p := range s.Pods {
		key := filePod{Namespace: p.Namespace, Pod: p.Pod, Node: p.Node}
		if p.Namespace == "" || p.Pod == "" || p.Node == "" || pods[key] {
			return out, fmt.Errorf("pods[%d] %s/%s on node %q: namespace, name and node are required, and must be unique together", i, p.Namespace, p.Pod, p.Node)
		}
		pods[key] = true
		err := amount("requestedCores", p.RequestedCores, 1e6)
		if p.UsedCores != nil {
			err = errors.Join(err, amount("usedCores", *p.UsedCores, 1e6))
		}
		if err != nil {
			return out, fmt.Errorf("pods[%d] %s/%s: %w", i, p.Namespace, p.Pod, err)
		}
		out.Pods = append(out.Pods, Pod{Namespace: p.Namespace, Name: p.Pod, Workload: cmp.Or(p.Workload, p.Pod), Node: p.Node, Requested: p.RequestedCores, Used: p.UsedCores})
	}
	return out, nil
}

// mostJoules bounds the energy of a node in a slice: a megawatt for a year.
const mostJoules = 1e6 * 366 * 24 * 3600

func amount(field string, value, most float64) error {
	if value >= 0 && value <= most && !math.IsNaN(value) {
		return nil
	}
	return fmt.Errorf("%s %v: must be a number from 0 to %v", field, value, most)
}
