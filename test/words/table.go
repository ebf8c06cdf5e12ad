package words

// scope is a set of places in which a word is retired.
type scope int

const (
	// prose is text that people read: pages, comments, strings, the Makefile, scripts and manifests. Words of identifiers
	// and of names of files, in lower case, count too: GiveBack says "give back".
	prose scope = 1 << iota
	// names are identifiers, except those of tests, which are sentences.
	names
	// shipped are identifiers outside of tests.
	shipped
	// files are names of files and folders.
	files
	// reasons are reasons of conditions and Events, and actions of Events.
	reasons
	// pages are Markdown files.
	pages
	// api is what users read about the kinds: descriptions of fields, manifests, and the chart.
	api
)

// A rule retires a word or phrase.
type rule struct {
	where scope
	// pattern is a regular expression for whole words in any case. A space matches any white space, also the end of a line
	// and the beginning of the next line of a comment.
	pattern string
	// use is what to say instead.
	use string
}

// table has all retired words. The first rule that matches applies.
var table = []rule{
	{prose, `LookedAfter`, "Reconciled"},
	{prose, `DecidesAnew`, "Retrying"},
	{prose, `GiveBack`, "Release"},
	{prose, `looks_total`, "evaluations_total"},
	{prose, `(stands?|stood) still|standing still`, "is frozen, has stopped, hangs, pausing"},
	{prose, `falls? free`, "become empty"},
	{prose, `by and by`, "gradually, exponentially weighted"},
	{prose, `reckon(s|ed|ing)?`, "compute"},
	{prose, `foremost`, "first"},
	{prose, `spoilt`, "invalid"},
	{prose, `(written|wrote) down`, "dumped, recorded"},
	{prose, `carried over`, "copied"},
	{prose, `bereft`, "orphaned"},
	{prose, `find no room`, "are unschedulable"},
	{prose, `for ever`, "without limit, permanently, never ends"},
	{prose, `believe[sd]?`, "expect, use, trust"},
	{prose, `(left|leaves?|leaving) alone`, "in back-off, unchanged, not scaled"},
	{prose, `given up`, "abandoned, cancelled, timed out"},
	{prose, `stray`, "leftover, orphaned"},
	{prose, `is free in the figures`, "is counted as $0"},
	{prose, `gives? back|gave back|given back|giving back`, "release, return"},
	{prose, `hasten(s|ed|ing)?`, "accelerate"},
	{prose, `anew`, "again, from the beginning"},
	{prose, `goes on|going on|went on`, "continue, resume"},
	{prose, `dearer`, "more expensive"},
	{prose, `look(s|ed|ing)? (after|into)`, "reconcile, manage, read"},
	{prose, `vessel`, "bin"},
	{prose, `bell`, "signal"},
	{prose, `turns? the pod that is too much away`, "rejects the excess pod"},
	{prose, `as ever`, "as usual"},
	{prose, `says? nothing of (itself|it|them|themselves)`, "has no annotation, does not specify it"},
	{prose, `takes? back|taken back|took back|taking back|turns? back`, "roll back, revert, release"},
	{prose, `(is|are|was|were) (not )?to be had`, "is available"},
	{prose, `only that is looked at`, "only that node is evaluated"},
	{prose, `what (came|comes|has come) of`, "result, outcome"},
	{prose, `(stands?|stood) in the way`, "prevent"},
	{prose, `tells least for its time`, "slow tests that rarely fail"},
	{prose, `wants a quiet machine`, "needs an idle machine"},
	{prose, `comes of it`, "results"},
	{prose, `in the same breath`, "at the same time"},
	{prose, `one does well`, "we recommend"},
	{prose, `(stands?|stood) beside`, "runs alongside, is next to"},
	{prose, `let go( of)?|lets go( of)?|letting go`, "release"},
	{prose, `in vain`, "without success"},
	{prose, `speaks? of|spoken of`, "mention"},
	{prose, `heed(s|ed|ing)?`, "respect, apply"},
	{prose, `all the same`, "anyway, nevertheless"},
	{prose, `no sooner`, "not before"},
	{prose, `meddles?`, "interfere"},
	{prose, `looks? again`, "evaluate again"},
	{prose, `(a|first|second|third|next|last|each|every|one|some|no) look|(two|three|first|some) looks`, "evaluation, observation"},
	{prose, `look(s|ed|ing)? at`, "evaluate, check, read"},

	{names, `tells?`, "recordEvent, report, print"},
	{names, `looks?|looked`, "evaluate, observe, read, find"},
	{names, `disclaims?`, "release"},
	{names, `owe[sd]?`, "remaining, due"},

	{shipped, `said|told`, "reported, logged, printed"},

	{files, `apart`, "otherCluster, antiaffinity"},
	{files, `dead`, "unready"},
	{files, `plain`, "inputs"},
	{files, `seen`, "measuredSize, observation"},
	{files, `standing`, "otherScalers"},
	{files, `looks?`, "evaluations"},
	{files, `tell|told`, "events"},

	{reasons, `TargetClosed`, "TargetCordoned"},
	{reasons, `Answers`, "Responding"},
	{reasons, `NoAnswer`, "NotResponding"},
	{reasons, `NothingToSpare`, "RequestsMatchUsage"},
	{reasons, `Deciding`, "Active"},
	{reasons, `NotFollowed`, "NoAutoscalerFollows"},
	{reasons, `Remembered`, "StateSaved"},
	{reasons, `TooLittle`, "InsufficientSamples"},
	{reasons, `Given`, "Specified"},
	{reasons, `Hold`, "Wait"},
	{reasons, `Look`, "Evaluate"},
	{reasons, `Act`, "Resume"},
	{reasons, `Pod|Owner|Target|Gang|Service|Selector|Volume|Devices|EmptyDir|RuntimeClass|HostNamespace|StaticPod|PodReplacementPolicy|StartupProbe|LivenessProbe`,
		"what is wrong with it, such as VolumeUnsupported"},

	{pages, `who(ever|soever)`, "clients that, users who"},
	{pages, `says? so`, "reports it"},
	{pages, `says? nothing`, "has no annotation"},
	{pages, `whatever (they|it|you) says?`, "regardless of"},
	{pages, `says? otherwise`, "prevents it, specifies another"},
	{pages, `comes? free`, "becomes available"},
	{pages, `on (its|their) way`, "starting, in progress"},
	{pages, `under way`, "in progress"},
	{pages, `dear`, "expensive"},
	{pages, `hangs on`, "depends on"},
	{pages, `somebody|nobody`, "another client, no user"},
	{pages, `another matter`, "different"},
	{pages, `over and over`, "repeatedly"},
	{pages, `(their|its) like`, "equal pods"},
	{pages, `whatever`, "regardless of, any, the program that"},
	{pages, `(a|the|keep the) ways? back`, "roll back"},
	{pages, `said yes|says? yes`, "accepted"},
	{pages, `scores? alike`, "get the same score"},
	{pages, `(is|are) no (room|failure)`, "does not count as"},
	{pages, `nothing is known of`, "no … is known"},
	{pages, `when it is over|that it is over`, "the end"},

	{api, `(gives?|given|gave|giving) (\w+ )?back|(gives?|given|gave|giving) (\w+ )?away`, "released, deleted"},
	{api, `comes? free`, "becomes available"},
	{api, `(is|are|was|were) taken (to|for)`, "is assumed to, counts as"},
	{api, `(is|are|was|were) told`, "is configured, is instructed"},
	{api, `looks? (at|for|into)|looked (at|after|into)`, "evaluates, checks, reads"},
	{api, `who(ever|soever)`, "clients that"},
	{api, `those that there are`, "existing"},
	{api, `so many`, "this number of"},
	{api, `goes on|go on|went on`, "continues"},
	{api, `passed over`, "ignored, not chosen"},
	{api, `put right`, "fixed"},
	{api, `on (its|their) way`, "starting, in progress"},
	{api, `under way`, "in progress"},
	{api, `says? (which|what|how|when|where|why|so|that|it)`, "specifies, explains, reports"},
	{api, `(is|are) to (be|do|have|follow|buy|keep)`, "should, will, must"},
	{api, `stands? in`, "is in"},
	{api, `said to be`, "named"},
	{api, `what (is|was|are) (said|seen|measured|done|bought)`, "a noun"},
}
