package tasks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue"
)

// mostBytes is the maximum size of an answer. The state of a queue with [MostCategories] is about
// 100 KB.
const mostBytes = 4 << 20

// Source finds a manager, if necessary, and queries the state of its queue.
type Source struct {
	// Address is host:port. If it is empty, Catalogs are queried for Project each time.
	Address  string
	Catalogs []workqueue.Catalog
	Project  string
	// PasswordFile contains the manager's password; empty for none. It is read each time, because a
	// mounted Secret may change.
	PasswordFile string
	// TLS enables TLS; a catalog server can enable it too. CAFile contains the certificate
	// authorities, in PEM, and is read each time; empty uses those of the system. ServerName is the
	// name in the certificate; empty uses the host of the address.
	TLS                bool
	CAFile, ServerName string
	// Timeout is the maximum duration of finding and querying the manager.
	Timeout time.Duration
}

// Queue queries the state once. It opens one connection to the manager, and one to each catalog
// server that it queries.
func (s *Source) Queue(ctx context.Context) (workqueue.Queue, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	client := workqueue.Client{Address: s.Address, Timeout: s.Timeout, MaxBytes: mostBytes}
	secure := s.TLS
	if s.Address == "" {
		found, err := workqueue.Discover(ctx, s.Catalogs, s.Project)
		if err != nil {
			return workqueue.Queue{}, err
		}
		client.Address, secure = found.Address, secure || found.TLS
	}
	if s.PasswordFile != "" {
		password, err := os.ReadFile(s.PasswordFile)
		if err != nil {
			return workqueue.Queue{}, fmt.Errorf("read the password: %w", err)
		}
		if len(password) == 0 {
			return workqueue.Queue{}, fmt.Errorf("read the password: %s is empty", s.PasswordFile)
		}
		client.Password = string(password)
	}
	if secure {
		var err error
		if client.TLS, err = s.tls(); err != nil {
			return workqueue.Queue{}, err
		}
	}
	return client.Queue(ctx)
}

func (s *Source) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.ServerName}
	if s.CAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the authorities: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the authorities: %s contains no PEM certificate", s.CAFile)
	}
	return config, nil
}
