// Package auditreport prints the result of `supercargo audit` as a table that fits one screen and as an HTML page.
package auditreport

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the parts of the page
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/internal/text/dollars"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string

	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
		"money": func(a dollars.Amount) string { return fmt.Sprintf("%.2f", a.Dollars()) },
		"mills": func(a dollars.Amount) string { return fmt.Sprintf("%.3f", a.Dollars()) },
		"whole": func(a dollars.Amount) string { return fmt.Sprintf("%.0f", a.Dollars()) },
		"share": func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) },
		"named": func(name string) string { return cmp.Or(name, "(unknown)") },
	}).Parse(pageHTML))

	// contentPolicy is the Content-Security-Policy of the page: it loads nothing and applies only
	// this style sheet.
	contentPolicy = fmt.Sprintf("default-src 'none'; style-src '%s'; base-uri 'none'; form-action 'none'", hashOf(pageCSS))
)

// hashOf returns the hash source by which a Content-Security-Policy names a part of the page.
func hashOf(part string) string {
	sum := sha256.Sum256([]byte(part))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// bar is a bill as a bar. Width is in percent of the widest bar.
type bar struct {
	row
	Width float64
}

// pageView is the data of the template.
type pageView struct {
	*audit.Result
	Security string
	CSS      template.CSS
	Lead     string
	Bars     []bar
	Gauges   []gauge
	Shown    []shownObstacle
}

// shownObstacle is an obstacle with its cost in words.
type shownObstacle struct {
	audit.Cost
	Less, Means string
}

// mostShown is the maximum number of rows in a table of the page.
const mostShown = 50

// gauge is a share as a bar. Used is negative if there are no usage metrics.
type gauge struct {
	Name            string
	Requested, Used float64 // percent
}

// WriteHTML writes a result as one HTML page that needs no network and no script. All text is escaped.
func WriteHTML(w io.Writer, d *audit.Result) error {
	v := pageView{Result: d, Security: contentPolicy, CSS: template.CSS(pageCSS), Lead: lead(d)} //nolint:gosec // the style sheet is ours
	most := d.Now.PerHour
	if d.Homogeneous != nil {
		most = max(most, d.Homogeneous.PerHour)
	}
	for _, r := range rows(d) {
		b := bar{row: r}
		if most > 0 {
			b.Width = 100 * r.PerHour.Dollars() / most.Dollars()
		}
		v.Bars = append(v.Bars, b)
	}
	for i := range d.Obstacles[:min(len(d.Obstacles), mostShown)] {
		o := &d.Obstacles[i]
		v.Shown = append(v.Shown, shownObstacle{*o, saves(o), means(o)})
	}
	v.Gauges = []gauge{{"CPU", 100 * d.Requested.CPU, -1}, {"memory", 100 * d.Requested.Memory, -1}, {"pods", 100 * d.Requested.Pods, -1}}
	if d.Used != nil {
		v.Gauges[0].Used, v.Gauges[1].Used = 100*d.Used.CPU, 100*d.Used.Memory
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, v); err != nil {
		return fmt.Errorf("render the page: %w", err)
	}
	_, err := out.WriteTo(w)
	return err
}

// lead returns the result in a few sentences.
func lead(d *audit.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "This cluster costs $%.2f an hour, $%.0f a month.", d.Now.PerHour.Dollars(), d.Now.PerMonth.Dollars())
	switch {
	case d.Cheapest.PerHour < d.Now.PerHour:
		fmt.Fprintf(&b, " The same pods fit on machines that cost %s less; no machines cost less than $%.2f an hour.", below(d, d.Cheapest.PerHour), d.Bound.Dollars())
	default:
		b.WriteString(" No cheaper machines were found for its pods.")
	}
	if d.Moved.PerHour < d.Now.PerHour {
		fmt.Fprintf(&b, " Moving %d pods alone saves %s.", d.Moves, below(d, d.Moved.PerHour))
	}
	return b.String()
}
