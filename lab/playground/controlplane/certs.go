package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"time"
)

// webhookCert names the files of the certificate of cluster-api's webhooks.
const webhookCert = "cluster-api"

// certLifetime is the validity of certificates, longer than any playground lives. They are created
// again at each start.
const certLifetime = 365 * 24 * time.Hour

// pair is a certificate and its key in PEM, and their files. A pair without a certificate is a bare
// key.
type pair struct {
	cert, key         []byte
	certFile, keyFile string

	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
}

// certs are the certificates and keys of a control plane.
type certs struct {
	ca               *pair // signs server, webhook and admin
	server           *pair // of the API server, for localhost and all its possible addresses
	webhook          *pair // of the cluster-api webhooks, for 127.0.0.1
	admin            *pair // a client in system:masters
	frontProxyCA     *pair // signs frontProxy
	frontProxy       *pair // the client certificate of the API server for aggregated API servers
	serviceAccounts  *pair // a bare key that signs service account tokens
	frontProxyClient string
}

// writeCerts creates all keys and certificates and writes them to the state. The certificate of the
// API server is valid for 127.0.0.1 and address.
func (s *Directory) writeCerts(address net.IP) (*certs, error) {
	c, err := newCerts(time.Now(), address)
	if err != nil {
		return nil, fmt.Errorf("create certificates: %w", err)
	}
	files := map[string]*pair{
		"ca": c.ca, "apiserver": c.server, webhookCert: c.webhook, "admin": c.admin,
		"front-proxy-ca": c.frontProxyCA, "front-proxy-client": c.frontProxy, "sa": c.serviceAccounts,
	}
	for name, p := range files {
		if err := p.write(filepath.Join(s.pkiDir(), name)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func newCerts(now time.Time, address net.IP) (*certs, error) {
	const proxyName = "front-proxy-client"
	ca, err1 := newCA("supercargo-playground-ca", now)
	proxyCA, err2 := newCA("supercargo-playground-front-proxy-ca", now)
	sa, err3 := newKey()
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	server, err1 := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{loopback, address},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}, now)
	admin, err2 := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "supercargo-admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, now)
	proxy, err3 := proxyCA.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: proxyName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, now)
	webhook, err4 := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "cluster-api"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{loopback},
	}, now)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	return &certs{
		ca: ca, server: server, webhook: webhook, admin: admin,
		frontProxyCA: proxyCA, frontProxy: proxy, frontProxyClient: proxyName,
		serviceAccounts: sa,
	}, nil
}

func newKey() (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &pair{key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), signer: key}, nil
}

func newCA(name string, now time.Time) (*pair, error) {
	ca, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, KeyUsage: x509.KeyUsageCertSign}
	return ca, ca.sign(template, template, ca.signer, now)
}

// issue creates a key and a certificate for it, signed by the CA p.
func (p *pair) issue(template *x509.Certificate, now time.Time) (*pair, error) {
	leaf, err := newKey()
	if err != nil {
		return nil, err
	}
	return leaf, leaf.sign(template, p.parsed, p.signer, now)
}

// sign completes template and signs it as the certificate of p.
func (p *pair) sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey, now time.Time) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	template.NotBefore = now.Add(-time.Hour) // tolerates clocks that are slightly behind
	template.NotAfter = now.Add(certLifetime)
	template.KeyUsage |= x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, parent, p.signer.Public(), signer)
	if err != nil {
		return err
	}
	p.cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	p.parsed, err = x509.ParseCertificate(der)
	return err
}

// write stores the pair as base.crt and base.key.
func (p *pair) write(base string) error {
	p.keyFile = base + ".key"
	if err := WriteFile(p.keyFile, p.key); err != nil {
		return err
	}
	if p.cert == nil {
		return nil
	}
	p.certFile = base + ".crt"
	return WriteFile(p.certFile, p.cert)
}
