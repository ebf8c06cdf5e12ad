package workqueue

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// Found is a manager that a catalog server knows.
type Found struct {
	// Address is host:port. The host is the address from which the catalog server heard the manager.
	Address string
	Project string
	// Heard is when it was last heard, by the clock of the catalog server. A manager sends an update once a minute, so
	// one that was heard long ago may be gone.
	Heard time.Time
	// TLS reports whether the manager requires TLS.
	TLS bool
	// Queue is its last update. It is abridged if it was too large for a datagram.
	Queue Queue
}

// Catalog is a catalog server of cctools.
type Catalog struct {
	// Address is host:port; the default port of cctools is 9097.
	Address string
	// HTTP is the client; nil means one with [DefaultTimeout] that follows no redirects.
	HTTP *http.Client
	// MaxBytes bounds an answer; 0 means [DefaultMaxBytes].
	MaxBytes int64
}

// ErrNotFound is the error of a project for which no catalog server knows a manager.
var ErrNotFound = errors.New("no catalog server lists a Work Queue manager of that project")

// Discover returns the manager of a project that was heard last. It queries the catalog servers in order until one
// knows the project.
func Discover(ctx context.Context, catalogs []Catalog, project string) (Found, error) {
	var errs []error
	for _, c := range catalogs {
		found, err := c.Managers(ctx, project)
		switch {
		case err != nil:
			errs = append(errs, err)
		case len(found) > 0:
			return found[0], nil
		}
	}
	errs = append(errs, fmt.Errorf("project %q: %w", project, ErrNotFound))
	return Found{}, errors.Join(errs...)
}

// Managers returns the Work Queue managers of a project, the one heard last first.
func (c Catalog) Managers(ctx context.Context, project string) ([]Found, error) {
	data, err := c.get(ctx, project)
	if err == nil {
		var list []answer.Listing
		if list, err = answer.Read[answer.Listing](data); err == nil {
			return managers(list, project), nil
		}
	}
	return nil, fmt.Errorf("query catalog server %s for project %q: %w", c.Address, project, err)
}

// managers filters the managers of the project, because a server may send all entries.
func managers(list []answer.Listing, project string) []Found {
	var found []Found
	for _, l := range list {
		isManager := l.Type == "wq_master" || l.Type == "wq_manager"
		if !isManager || l.Project != project || l.Address == "" || l.Port < 1 || l.Port > 65535 {
			continue
		}
		found = append(found, Found{
			Address: net.JoinHostPort(l.Address, strconv.FormatInt(l.Port, 10)), Project: l.Project, Heard: l.Heard, TLS: l.TLS, Queue: l.Queue,
		})
	}
	slices.SortFunc(found, func(a, b Found) int { return cmp.Or(b.Heard.Compare(a.Heard), cmp.Compare(a.Address, b.Address)) })
	return found
}

// get requests the entries of the project. Old servers do not support that; then it requests all entries.
func (c Catalog) get(ctx context.Context, project string) ([]byte, error) {
	filter := "project==" + strconv.QuoteToASCII(project)
	paths := []string{"/query/" + base64.StdEncoding.EncodeToString([]byte(filter)), "/query.json"}
	var errs []error
	for _, path := range paths {
		data, err := c.fetch(ctx, path)
		if err == nil {
			if _, err = answer.Read[answer.Listing](data); err == nil {
				return data, nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", path, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (c Catalog) fetch(ctx context.Context, path string) ([]byte, error) {
	client := c.HTTP
	if client == nil {
		client = &http.Client{
			Timeout:       DefaultTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	target := url.URL{Scheme: "http", Host: c.Address, Path: path}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", response.Status)
	}
	most := cmp.Or(c.MaxBytes, DefaultMaxBytes)
	data, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%w (%d bytes)", ErrTooLarge, most)
	}
	return data, err
}
