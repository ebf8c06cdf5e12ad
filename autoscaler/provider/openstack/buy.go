package openstack

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"supercargo.dev/supercargo/autoscaler/provider"
)

// concurrency is the maximum number of concurrent requests that create or delete servers.
const concurrency = 10

// Buy implements provider.Provider. The servers of an order are numbered from 0 and created under their numbers. The
// existing ones are looked up before any is created, and again after each error with an unknown outcome.
func (p *Provider) Buy(ctx context.Context, intent, flavor string, from, to int) error {
	s, stock, err := p.connect(ctx)
	if err != nil {
		return err
	}
	o, ok := stock.find(p.spec, flavor)
	if !ok {
		return fmt.Errorf("buy %s: it is no longer offered: %w", flavor, provider.ErrChanged)
	}
	u, err := readUserData(ctx, p.clouds.Live, p.spec.UserData)
	if err != nil {
		return err
	}
	for failures := uint(1); ; failures++ {
		missing, err := p.missing(ctx, s, intent, flavor, from, to)
		if err != nil || len(missing) == 0 {
			return p.loggedOut(err)
		}
		err = p.makeAll(ctx, s, stock, &o, u, intent, missing)
		if err == nil {
			return nil
		}
		if !transient(err) || failures >= maxTries {
			return p.handleRefusal(ctx, s, flavor, err)
		}
		if err := await(ctx, pause(failures, rand.Float64())); err != nil {
			return err
		}
	}
}

// missing returns the numbers of an order's servers that do not exist, ordered. It returns ErrChanged if the number of
// other servers is not from.
func (p *Provider) missing(ctx context.Context, s *session, intent, flavor string, from, to int) ([]int, error) {
	all, err := s.servers(ctx, append(p.tags(), tag(tagFlavor, flavor))...)
	if err != nil {
		return nil, err
	}
	there, others := map[string]bool{}, 0
	for i := range all {
		switch own := hasTag(&all[i], tag(tagIntent, intent)); {
		case own:
			there[tagValue(&all[i], tagOrdinal)] = true // also one that is leaving: it was made
		case !leaving(&all[i]):
			others++
		}
	}
	if others != from {
		return nil, fmt.Errorf("buy %s: expected %d servers, found %d: %w", flavor, from, others, provider.ErrChanged)
	}
	var missing []int
	for i := range to - from {
		if !there[strconv.Itoa(i)] {
			missing = append(missing, i)
		}
	}
	return missing, nil
}

// makeAll requests servers.
func (p *Provider) makeAll(ctx context.Context, s *session, stock *stock, o *offer, u *userData, intent string, ordinals []int) error {
	return askAll(len(ordinals), func(i int) error { return p.makeOne(ctx, s, stock, o, u, intent, ordinals[i]) })
}

// askAll calls ask for each number below n, some concurrently, and continues after transient errors. It waits for all
// requests: a request that is abandoned may still be carried out later. It returns the most important error: one that a
// retry will not solve.
func askAll(n int, ask func(i int) error) error {
	var refused atomic.Bool // the others would fail alike
	errs := make([]error, n)
	parallel(n, func(i int) {
		if refused.Load() {
			return
		}
		if errs[i] = ask(i); errs[i] != nil && !transient(errs[i]) {
			refused.Store(true)
		}
	})
	var worst error
	for _, err := range errs {
		if err != nil && (worst == nil || transient(worst)) {
			worst = err
		}
	}
	return worst
}

// makeOne requests one server.
func (p *Provider) makeOne(ctx context.Context, s *session, stock *stock, o *offer, u *userData, intent string, ordinal int) error {
	name := serverName(p.fleet.Name, intent, o.name, ordinal)
	text, err := u.render(facts{
		Name: name, Fleet: p.fleet.Name, Flavor: o.nova.Name, Zone: o.zone,
		Labels: labelsFlag(o.givenLabels(p.fleet, p.spec)), Taints: taintsFlag(p.spec.NodeTaints),
	})
	if err != nil {
		return err
	}
	networks := make([]servers.Network, len(stock.networks))
	for i, id := range stock.networks {
		networks[i].UUID = id
	}
	create := servers.CreateOpts{
		Name: name, ImageRef: stock.image.ID, FlavorRef: o.nova.ID, Networks: networks, SecurityGroups: stock.securityGroups,
		AvailabilityZone: o.zone, Tags: p.orderTags(intent, o.name, ordinal),
	}
	if text != nil {
		// Encoded here: a text that happens to be base64 would be sent unencoded.
		create.UserData = []byte(base64.StdEncoding.EncodeToString(text))
	}
	hints := servers.SchedulerHintOpts{Group: stock.serverGroup}
	return servers.Create(ctx, s.compute, keypairs.CreateOptsExt{CreateOptsBuilder: create, KeyName: p.spec.KeyName}, hints).Err
}

// serverName returns the name of a server, which becomes that of its node: the possibly shortened name of the fleet, a
// digest of the order, and the number in it. Equal orders give equal names.
func serverName(fleet, intent, flavor string, ordinal int) string {
	sum := sha256.Sum256([]byte(intent + "\n" + flavor))
	digest := strings.ToLower(base32.HexEncoding.EncodeToString(sum[:5]))
	fleet = strings.TrimRight(strings.ReplaceAll(fleet, ".", "-")[:min(len(fleet), 40)], "-")
	return fmt.Sprintf("%s-%s-%d", fleet, digest, ordinal)
}

// decide handles an error of an order. The available flavors are known better then, so the fleet decides again.
func (p *Provider) handleRefusal(ctx context.Context, s *session, flavor string, err error) error {
	refused := &provider.Refused{}
	switch {
	case errors.As(err, &refused):
		return err
	default:
	}
	message := messageOf(err)
	switch judge(err) {
	case overQuota:
		return p.refuse(ctx, s, flavor, "", fmt.Errorf("buy %s: %s: %w", flavor, message, provider.ErrChanged))
	case unfit:
		p.cloud.forgetStock()
		return p.refuse(ctx, s, flavor, "the cloud refuses to create such a server: "+message, fmt.Errorf("buy %s: %s: %w", flavor, message, provider.ErrChanged))
	case locked, unknown:
	}
	return p.loggedOut(s.login.explain("create a server of flavor "+flavor, err))
}

// refuse records, for the fleet's back-off, what the cloud refused to sell.
func (p *Provider) refuse(ctx context.Context, s *session, flavor, problem string, cause error) error {
	all, err := s.servers(ctx, append(p.tags(), tag(tagFlavor, flavor))...)
	if err != nil {
		return errors.Join(cause, err)
	}
	may, err := s.limits(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	there := 0
	for i := range all {
		if !leaving(&all[i]) {
			there++
		}
	}
	p.cloud.mu.Lock()
	defer p.cloud.mu.Unlock()
	p.cloud.refused[flavor] = refusal{
		until: p.clouds.Clock.Now().Add(max(p.fleet.Spec.Scaling.BackOff.Duration, time.Second)), machines: there, limits: *may, problem: problem,
	}
	return cause
}

// Release implements provider.Provider.
func (p *Provider) Release(ctx context.Context, _, flavor string, from int, machines []string) error {
	s, _, err := p.connect(ctx)
	if err != nil {
		return err
	}
	all, err := s.servers(ctx, append(p.tags(), tag(tagFlavor, flavor))...)
	if err != nil {
		return p.loggedOut(err)
	}
	staying, going := map[string]bool{}, map[string]bool{}
	for i := range all {
		if leaving(&all[i]) {
			going[all[i].ID] = true
		} else {
			staying[all[i].ID] = true
		}
	}
	var asked []string
	for _, id := range machines {
		if staying[id] {
			asked = append(asked, id)
			delete(staying, id)
		}
	}
	if len(staying) != from-len(machines) {
		return fmt.Errorf("release %d of %d servers of %s: %d would remain: %w", len(machines), from, flavor, len(staying), provider.ErrChanged)
	}
	return p.deleteAll(ctx, s, asked)
}

// deleteAll deletes servers, some concurrently. A server that is gone is no error.
func (p *Provider) deleteAll(ctx context.Context, s *session, ids []string) error {
	errs := make([]error, len(ids))
	parallel(len(ids), func(i int) {
		err := servers.Delete(ctx, s.compute, ids[i]).Err
		if err != nil && statusOf(err) != http.StatusNotFound {
			errs[i] = s.login.explain("delete server "+ids[i], err)
		}
	})
	return p.loggedOut(errors.Join(errs...))
}

// parallel calls do for each number below n, some concurrently.
func parallel(n int, do func(i int)) {
	slots := make(chan struct{}, concurrency)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}
