package reasons

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const eventsHead = `<!-- Written by make generate from hack/reference/reasons.yaml, which must have the reasons of the code. -->
# Events

Every reason of the Events that Supercargo creates. ` + "`kubectl get events -A --field-selector reason=REASON`" + ` finds them. The message of an Event has the details: which objects, why, and what to do.
`

const conditionsHead = `<!-- Written by make generate from api/v1alpha1 and hack/reference/reasons.yaml, which must have the reasons of the code. -->
# Conditions

Every condition of Supercargo's kinds, and its reasons. ` + "`kubectl describe`" + ` and ` + "`supercargo explain`" + ` print them with their messages. A meaning that begins with True, False or Unknown belongs to that status;
the others belong to the status that tells of a problem.
`

func eventsPage(groups []Group) string {
	var b strings.Builder
	b.WriteString(eventsHead)
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\nOn objects of kind %s", g.Name, g.Objects)
		if g.Also != "" {
			fmt.Fprintf(&b, ". Also %s", strings.ReplaceAll(g.Also, "below", "on the [page of conditions](conditions.md#"+strings.ReplaceAll(strings.ToLower(g.Name), " ", "-")+")"))
		}
		b.WriteString(".\n\n| reason | type | meaning |\n| --- | --- | --- |\n")
		for _, reason := range slices.Sorted(maps.Keys(g.Events)) {
			kind, meaning := "Normal", g.Events[reason]
			if rest, warning := strings.CutPrefix(meaning, "!"); warning {
				kind, meaning = "Warning", rest
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", reason, kind, meaning)
		}
	}
	return b.String()
}

func conditionsPage(groups []Group, types []conditionType) string {
	var b strings.Builder
	b.WriteString(conditionsHead)
	for _, g := range groups {
		if len(g.Conditions) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n", g.Name)
		for _, t := range types {
			reasons, ok := g.Conditions[t.name]
			if !ok || t.prefix != g.Types && t.name != "Paused" {
				continue
			}
			fmt.Fprintf(&b, "\n### %s of %s\n\n`%s` %s\n\n| reason | meaning |\n| --- | --- |\n", t.name, g.Name, t.name, t.about)
			for _, reason := range slices.Sorted(maps.Keys(reasons)) {
				fmt.Fprintf(&b, "| `%s` | %s |\n", reason, reasons[reason])
			}
		}
	}
	return b.String()
}
