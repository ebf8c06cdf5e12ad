package status

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"supercargo.dev/supercargo/internal/text/plural"
)

// Sentences say what figures mean. {at} stands for the time of the audit, which each reader shows by his own clock.
type Sentences struct {
	// Priced is about Dollars, Powered about Watts, Nodes about the number of nodes.
	Priced  string `json:"priced"`
	Powered string `json:"powered"`
	Nodes   string `json:"nodes"`
	// Pending is about the pods without a node, and Waited is the same of the past.
	Pending string `json:"pending"`
	Waited  string `json:"waited"`
	// Audit is about what the pods could cost. Homogeneous names the bill with one type of machines to buy.
	Audit       string `json:"audit"`
	Homogeneous string `json:"homogeneous"`
	// NoPending is for a list of pending pods that is empty, and NoPendingThen is the same of the past, whose time
	// the page and the terminal write in place of {since}.
	NoPending     string `json:"noPending"`
	NoPendingThen string `json:"noPendingThen"`
}

// sentences returns what to say of a summary. What was not read is not asserted: priced reports whether prices of
// nodes were read, and audits whether there are audits.
func (s *Summary) sentences(priced, audits bool) Sentences {
	return Sentences{
		Priced: s.pricedSentence(priced), Powered: s.poweredSentence(), Nodes: s.nodesSentence(), Audit: s.auditSentence(audits),
		Pending: s.pendingSentence(present), Waited: s.pendingSentence(past), Homogeneous: s.Audit.homogeneousName(),
		NoPending: "No pod waits for a node.", NoPendingThen: "No pod waited for a node at {since}.",
	}
}

func (s *Summary) pricedSentence(read bool) string {
	switch left := s.Nodes - s.Priced; {
	case s.Nodes == 0:
		return "There are no nodes."
	case !read && s.Audit != nil && s.Audit.Error != "":
		return fmt.Sprintf("Prices could not be read: %s.", strings.TrimSuffix(s.Audit.Error, "."))
	case !read:
		return "Prices are being read."
	case s.Priced == 0:
		return plural.Form(s.Nodes, "The only node has no known price.", "No node has a known price.")
	case left > 0:
		return fmt.Sprintf("%s of %s %s no known price and %s not included.", grouped(left), count(s.Nodes, "node"), plural.Form(left, "has", "have"), plural.Form(left, "is", "are"))
	}
	return fmt.Sprintf("For %s.", allOf(s.Nodes, "node"))
}

func (s *Summary) poweredSentence() string {
	switch {
	case s.Nodes == 0:
		return ""
	case s.Powered == 0:
		return plural.Form(s.Nodes, "The power of the node's machine type is unknown.", "The power of the nodes' machine types is unknown.")
	case s.Powered < s.Nodes:
		return fmt.Sprintf("Modelled from what pods request. The model covers %s of %s.", grouped(s.Powered), count(s.Nodes, "node"))
	}
	return fmt.Sprintf("Modelled from what pods request, for %s.", allOf(s.Nodes, "node"))
}

func (s *Summary) nodesSentence() string {
	switch {
	case s.Nodes == 0:
		return ""
	case s.Empty > 0:
		return fmt.Sprintf("%s ready, %s empty", grouped(s.Ready), grouped(s.Empty))
	}
	return grouped(s.Ready) + " ready"
}

// tense is how a sentence about pods is said.
type tense struct{ waits, wait, is, are string }

var (
	present = tense{"waits", "wait", "is", "are"}
	past    = tense{"waited", "waited", "was", "were"}
)

func (s *Summary) pendingSentence(say tense) string {
	more := ""
	if s.Pods > 0 {
		more = " more"
	}
	text := fmt.Sprintf("None %s for a node.", say.waits)
	if s.Pending > 0 {
		text = fmt.Sprintf("%s%s %s for a node.", grouped(s.Pending), more, plural.Form(s.Pending, say.waits, say.wait))
	}
	if s.Lost == 0 {
		return text
	}
	where := fmt.Sprintf("%s on a node that %s not listed.", say.is, say.is)
	if s.Lost > 1 {
		where = fmt.Sprintf("%s on nodes that %s not listed.", say.are, say.are)
	}
	return fmt.Sprintf("%s %s%s %s", text, grouped(s.Lost), more, where)
}

func (s *Summary) auditSentence(audits bool) string {
	a := s.Audit
	switch {
	case !audits:
		return "The possible cost is not computed, because --audit-interval is 0."
	case a == nil:
		return "The possible cost is being computed."
	case a.At == 0:
		return "The possible cost is unknown: " + a.Error
	}
	text := fmt.Sprintf("The possible cost is as of {at}, at %s.", a.Source)
	if a.Unsold != "" {
		text += " " + a.Unsold
	}
	if a.Changed {
		text += " The nodes or their prices have changed since."
	}
	if a.Error != "" {
		text = "Not updated: " + a.Error + ". " + text
	}
	return text
}

// homogeneousName names the bill with one type of machines to buy, beside which nodes of other types may stay.
func (a *Audit) homogeneousName() string {
	if a != nil && a.Result != nil && len(a.Result.Staying) > 0 {
		return "One type of new machines"
	}
	return "One machine type"
}

// changedSince reports whether the cluster no longer costs what it did at an audit.
func (s *Summary) changedSince(a *Audit) bool {
	const micro = 1e-6
	return a.At != 0 && (a.Now.Nodes != s.Priced || math.Abs(a.Now.Dollars-s.Dollars) > micro/2)
}

// count returns a number with its noun, which is given in the singular: "5,000 nodes".
func count(n int, noun string) string { return grouped(n) + " " + plural.Noun(n, noun) }

// allOf is [plural.All] with grouped digits.
func allOf(n int, noun string) string {
	if n < 1000 {
		return plural.All(n, noun)
	}
	return "all " + count(n, noun)
}

// grouped returns a number with a comma after each three digits from the right. It is not negative.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
