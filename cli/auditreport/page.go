// Package auditreport prints the result of `supercargo audit` as a table that fits one screen and as an HTML page.
package auditreport

import (
	"bytes"
	_ "embed" // the parts of the page
	"fmt"
	"html/template"
	"io"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/internal/text/contentpolicy"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string

	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
		"cents": cents, "mills": mills, "whole": whole, "percent": percent, "sold": sold, "part": partName,
		"unpriced": unpricedNodes, "staying": stayingNodes, "elsewhere": func(p audit.Part) string { return elsewhere(&p) },
	}).Parse(pageHTML))

	// contentPolicy is the Content-Security-Policy of the page: it loads nothing and applies only
	// this style sheet.
	contentPolicy = contentpolicy.Of(pageCSS, "")
)

// bar is a bill as a bar. Width is in percent of the widest bar.
type bar struct {
	row
	Width float64
}

// pageView is the data of the template.
type pageView struct {
	*audit.Result
	Security       string
	CSS            template.CSS
	Title          string
	Headline       string
	Findings, Free string
	Unshown        string
	Rule, Stopped  string
	Bars           []bar
	Gauges         []gauge
	Shown          []shownObstacle
	Divided        []divided
}

// divided is a division of the bill, with the costs of idle room and of everything.
type divided struct {
	audit.Allocation
	Rows []partRow
}

type partRow struct {
	audit.Part
	Share string
}

// shownObstacle is an obstacle with its cost in words.
type shownObstacle struct {
	audit.Cost
	Saves, Means string
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
	v := pageView{
		Result: d, Security: contentPolicy, CSS: template.CSS(pageCSS), //nolint:gosec // the style sheet is ours
		Title: "Audit: " + headline(d), Headline: headline(d), Findings: findings(d), Free: unhindered(d), Unshown: unshown(d), Rule: rule,
	}
	if d.Stopped {
		v.Stopped = stopped
	}
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
	if d.PricedNodes > 0 {
		v.Gauges = gauges(d)
		v.Divided = append(v.Divided, dividedBy(&d.ByNamespace, d))
		if d.ByLabel != nil {
			v.Divided = append(v.Divided, dividedBy(d.ByLabel, d))
		}
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, v); err != nil {
		return fmt.Errorf("render the page: %w", err)
	}
	_, err := out.WriteTo(w)
	return err
}

// gauges returns how much of the priced nodes is requested and used.
func gauges(d *audit.Result) []gauge {
	all := []gauge{{"CPU", 100 * d.Requested.CPU, -1}, {"memory", 100 * d.Requested.Memory, -1}, {"pods", 100 * d.Requested.Pods, -1}}
	if d.Used != nil {
		all[0].Used, all[1].Used = 100*d.Used.CPU, 100*d.Used.Memory
	}
	return all
}

// dividedBy returns the rows of a division: its parts, idle room, and the whole bill.
func dividedBy(a *audit.Allocation, d *audit.Result) divided {
	v := divided{Allocation: *a}
	for _, p := range a.Parts {
		p.Name = partName(p.Name)
		v.Rows = append(v.Rows, partRow{p, share(d, p.PerHour)})
	}
	idle := audit.Part{Name: idleRoom, PerHour: a.Idle, PerMonth: audit.HoursPerMonth * a.Idle}
	total := audit.Part{Name: inTotal, Pods: d.PricedPods, PerHour: d.Now.PerHour, PerMonth: d.Now.PerMonth}
	v.Rows = append(v.Rows, partRow{idle, share(d, idle.PerHour)}, partRow{total, share(d, total.PerHour)})
	return v
}
