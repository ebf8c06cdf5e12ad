package autoscalers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/lab/compressed"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/replay"
)

// The paces of a comparison.
const (
	// scaled sets Karpenter's batching to the fleet's values, and cuts its constant waits.
	scaled = "scaled"
	// stretched leaves Karpenter unmodified, and slows down everything else: pods, machines and the fleet's
	// waits.
	stretched = "stretched"
)

func paceNames() []string { return []string{scaled, stretched} }

// world contains the conditions that all contestants of a comparison share.
type world struct {
	load    load
	flavors []catalogue.Flavor
	pace    string
	stretch float64       // 1 unless stretched
	lag     time.Duration // from a machine's order to its Node; the release has no lag
}

// world returns the world of a comparison.
func (s *settings) world(l *load, flavors []catalogue.Flavor, pace string) *world {
	w := &world{load: *l, flavors: flavors, pace: pace, stretch: 1}
	if pace == stretched {
		w.stretch = s.stretch
	}
	w.load = l.slower(w.stretch)
	w.lag = time.Duration(float64(compressed.Lag) * w.stretch)
	return w
}

// contestant is an autoscaler with the scheduler that its users run.
type contestant interface {
	// options returns the options of its control plane.
	options() playground.Options
	// scheduler returns the configuration of its scheduler.
	scheduler(w *world) ([]byte, error)
	// start starts it on a control plane without nodes, and returns when it is ready. The returned function
	// stops it.
	start(ctx context.Context, p *playground.Playground, w *world, log *os.File) (stop func() error, err error)
	// machines returns the resource of the objects that represent machines, from order to release.
	machines() schema.GroupVersionResource
	// flavor returns the value that flavorOf returns for a machine of that flavor.
	flavor(f catalogue.Flavor) string
	// flavorOf derives the flavor of a machine from the labels of its object. It returns "" if the flavor is
	// not known yet.
	flavorOf(labels map[string]string) string
}

// The contestants.
const (
	supercargoFleet    = "supercargo"
	supercargoByClaims = "supercargo-karpenter" // decides, and Karpenter launches
	karpenterDefault   = "karpenter"            // drains under-used machines, its default
	karpenterBalanced  = "karpenter-balanced"   // drains them only if the saving outweighs the disruption
	karpenterWhenEmpty = "karpenter-when-empty" // releases only empty machines
)

// consolidationPolicies are the policies of Karpenter's NodePools.
var consolidationPolicies = map[string]string{
	karpenterDefault: "WhenEmptyOrUnderutilized", karpenterBalanced: "Balanced", karpenterWhenEmpty: "WhenEmpty",
}

func contestantNames() []string {
	return []string{supercargoFleet, supercargoByClaims, karpenterDefault, karpenterBalanced, karpenterWhenEmpty}
}

func (s *settings) contestant(name, pace, dir string) contestant {
	if name == supercargoFleet {
		return fleetOfSupercargo{program: s.autoscaler}
	}
	k := karpenter{program: s.karpenter, source: s.karpenterSource, dir: dir, scaled: pace == scaled, policy: consolidationPolicies[name]}
	if k.scaled {
		k.program = s.scaledKarpenter
	}
	if name == supercargoByClaims {
		return fleetOfNodeClaims{karpenter: k, fleet: fleetOfSupercargo{program: s.autoscaler}}
	}
	return k
}

// patience bounds the phases before and after the replay.
const patience = 3 * time.Minute

// once runs one contestant once.
func (s *settings) once(ctx context.Context, w *world, name string, round int) (r *Run, err error) {
	dir, err := os.MkdirTemp("", "autoscalers")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := s.contestant(name, w.pace, dir)
	log, err := os.Create(filepath.Join(s.logs, fmt.Sprintf("%s-%d-%s-%s-%d.log", w.load.name, len(w.flavors), w.pace, name, round)))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p, err := playground.Start(context.WithoutCancel(ctx), c.options())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	config, err := c.scheduler(w)
	if err != nil {
		return nil, err
	}
	if _, err := p.StartScheduler(ctx, config); err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stop, err := c.start(starting, p, w, log)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	return w.play(ctx, p, c, name, round)
}

// play replays the load and waits until all machines have been released.
func (w *world) play(ctx context.Context, p *playground.Playground, c contestant, name string, round int) (*Run, error) {
	meter, err := newMeter(ctx, p, c, w.flavors)
	if err != nil {
		return nil, err
	}
	defer meter.stop()
	r := &Run{Contestant: name, Round: round, Began: time.Now().UTC().Truncate(time.Second), LoadAverage: loadAverage()}
	replayed, err := replay.Run(ctx, replay.Options{
		Client: p.Client(), Pods: w.load.pods, Scale: w.load.scale, Window: w.load.window, Run: name, Recreate: true,
		CleanUp: patience,
	})
	if err == nil {
		err = p.Err()
	}
	if err != nil {
		return nil, err
	}
	shrinking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := meter.waitEmpty(shrinking); err != nil {
		return nil, fmt.Errorf("wait until it has given its machines back: %w", err)
	}
	return r, r.account(w, meter, replayed)
}
