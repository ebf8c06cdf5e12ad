package worker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/workerdecide"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/text/clip"
)

// pods are the pods of the pool, by name.
type pods map[string]*corev1.Pod

// observe reads the pods and queries the manager. A manager that does not answer is an observation, not an error.
func (rc *reconciliation) observe(ctx context.Context) error {
	if err := rc.observePods(ctx); err != nil {
		return err
	}
	if err := rc.connect(ctx); err != nil {
		rc.seen.Fault, rc.seen.Silence = err.Error(), workerdecide.NotAsked
	} else if reading, err := ask(ctx, rc.client); err != nil {
		rc.seen.Fault, rc.seen.Silence = err.Error(), silence(err)
	} else {
		rc.seen.Reading = reading
	}
	if err := rc.checkProject(); err != nil {
		rc.seen.Reading, rc.seen.Fault, rc.seen.Silence = nil, err.Error(), workerdecide.NotAsked
	}
	count(rc.pool, rc.seen.Reading != nil)
	return nil
}

// silence classifies the error of a query.
func silence(err error) workerdecide.Silence {
	switch {
	case workqueue.IsGone(err):
		return workerdecide.Gone
	case workqueue.IsSilent(err):
		return workerdecide.Unreachable
	}
	return workerdecide.Unusable
}

// observePods lists the pods of the pool, bypassing the cache, so that pods created a moment ago count.
func (rc *reconciliation) observePods(ctx context.Context) error {
	var list corev1.PodList
	err := rc.Live.List(ctx, &list, client.InNamespace(rc.pool.Namespace), client.MatchingLabels{v1alpha1.LabelWorkerPool: rc.pool.Name})
	if err != nil {
		return fmt.Errorf("list the pods of WorkerPool %s: %w", client.ObjectKeyFromObject(rc.pool), err)
	}
	rc.pods = pods{}
	addresses := map[string]int{}
	for i := range list.Items {
		p := &list.Items[i]
		if owned(p, rc.pool) {
			rc.pods[p.Name] = p
			addresses[p.Status.PodIP]++
		}
	}
	for _, p := range rc.pods {
		if ended(p) {
			continue
		}
		pod, err := rc.observePod(ctx, p)
		if err != nil {
			return err
		}
		if addresses[pod.IP] > 1 {
			pod.IP = "" // host-network pods share the address of their node
		}
		rc.seen.Pods = append(rc.seen.Pods, pod)
	}
	return nil
}

func owned(p *corev1.Pod, pool *v1alpha1.WorkerPool) bool {
	return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == pool.UID })
}

// ended reports whether the pod has finished, so that it runs no worker any more. A pod that is being deleted is
// leaving, not ended.
func ended(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && class.Ended(p)
}

// observePod returns the progress of a pod.
func (rc *reconciliation) observePod(ctx context.Context, p *corev1.Pod) (workerdecide.Pod, error) {
	pod := workerdecide.Pod{
		Name: p.Name, IP: p.Status.PodIP, Flavor: p.Annotations[v1alpha1.AnnotationFlavor], Worker: offered(p),
		Asked: p.CreationTimestamp.Time, Leaving: p.DeletionTimestamp != nil, Trouble: trouble(p),
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			pod.Scheduled = c.LastTransitionTime.Time
		}
	}
	for i := range p.Status.ContainerStatuses {
		if s := &p.Status.ContainerStatuses[i]; s.Name == p.Spec.Containers[0].Name && s.State.Running != nil {
			pod.Started = s.State.Running.StartedAt.Time
		}
	}
	if p.Spec.NodeName == "" {
		return pod, nil
	}
	var node corev1.Node
	switch err := rc.Client.Get(ctx, types.NamespacedName{Name: p.Spec.NodeName}, &node); {
	case err == nil:
		pod.NodeMade = node.CreationTimestamp.Time
	case !apierrors.IsNotFound(err):
		return pod, fmt.Errorf("read node %s of pod %s: %w", p.Spec.NodeName, p.Name, err)
	}
	return pod, nil
}

// trouble returns why a pod does not start; empty if no problem is known.
func trouble(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	for i := range p.Status.ContainerStatuses {
		if w := p.Status.ContainerStatuses[i].State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return joined(": ", w.Reason, w.Message)
		}
	}
	return ""
}

// joined joins the texts that are not empty.
func joined(by string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), by)
}

// connect finds the manager, its password and its TLS configuration.
func (rc *reconciliation) connect(ctx context.Context) error {
	m := &rc.pool.Spec.Manager
	rc.client = &workqueue.Client{Timeout: m.Timeout.Duration}
	secure := m.TLS != nil
	if m.Address != nil {
		rc.client.Address = *m.Address
	} else {
		found, err := rc.discover(ctx, m.Catalog)
		if err == nil {
			rc.client.Address = found.Address
			secure = secure || found.TLS
		} else if err = rc.askLastKnown(err); err != nil {
			return err
		}
	}
	if m.PasswordSecret != nil {
		password, err := rc.secret(ctx, m.PasswordSecret)
		if err != nil {
			return err
		}
		rc.client.Password = string(password)
	}
	if !secure {
		return nil
	}
	var err error
	rc.client.TLS, err = rc.tls(ctx, m.TLS)
	return err
}

func (rc *reconciliation) discover(ctx context.Context, c *v1alpha1.WorkQueueCatalog) (workqueue.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, rc.pool.Spec.Manager.Timeout.Duration)
	defer cancel()
	var servers []workqueue.Catalog
	for _, address := range c.Servers {
		servers = append(servers, workqueue.Catalog{Address: address})
	}
	return workqueue.Discover(ctx, servers, c.Project)
}

// askLastKnown uses the manager's last known address if catalog servers do not know the manager: they may be down, and
// they drop a manager that is too busy to send updates.
func (rc *reconciliation) askLastKnown(unknown error) error {
	if rc.before.Queue == nil || rc.before.Queue.Address == "" {
		return unknown
	}
	rc.client.Address, rc.undiscovered = rc.before.Queue.Address, unknown
	return nil
}

// checkProject rejects the answer of a different manager at the last known address, or at the address of a catalog
// server: entries outlive their manager by some minutes, and another may have got its port by then.
func (rc *reconciliation) checkProject() error {
	catalog := rc.pool.Spec.Manager.Catalog
	if catalog == nil || rc.pool.Spec.Manager.Address != nil || rc.seen.Reading == nil {
		return nil
	}
	project := rc.seen.Reading.Queue.Project
	if project == clipTo(catalog.Project, mostOfProject) {
		return nil
	}
	if rc.undiscovered == nil {
		return fmt.Errorf("the catalog server lists project %q at %s, and the manager there belongs to project %q", clip.Cell(catalog.Project), rc.client.Address, clip.Cell(project))
	}
	return fmt.Errorf("%w; the manager at its last known address %s belongs to project %q", rc.undiscovered, rc.client.Address, clip.Cell(project))
}

// secret reads a key of a Secret from the API server, because the cache has no Secrets.
func (rc *reconciliation) secret(ctx context.Context, of *v1alpha1.SecretKey) ([]byte, error) {
	var s corev1.Secret
	if err := rc.Live.Get(ctx, types.NamespacedName{Namespace: rc.pool.Namespace, Name: of.Name}, &s); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", of.Name, err)
	}
	value, ok := s.Data[of.Key]
	if !ok {
		return nil, fmt.Errorf("read Secret %s: it has no key %q", of.Name, of.Key)
	}
	return value, nil
}

func (rc *reconciliation) tls(ctx context.Context, t *v1alpha1.WorkQueueTLS) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t == nil {
		return config, nil
	}
	config.ServerName = t.ServerName
	if t.CASecret == nil {
		return config, nil
	}
	pem, err := rc.secret(ctx, t.CASecret)
	if err != nil {
		return nil, err
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read Secret %s: key %q contains no PEM certificate", t.CASecret.Name, t.CASecret.Key)
	}
	return config, nil
}

// ask sends the four queries. It returns all answers or an error.
func ask(ctx context.Context, m workqueue.Manager) (*workerdecide.Reading, error) {
	var r workerdecide.Reading
	var err error
	if r.Queue, err = m.Queue(ctx); err != nil {
		return nil, err // the other queries would only time out too
	}
	r.Queue.Project = clipTo(r.Queue.Project, mostOfProject) // as the status has it, to which it is compared
	var errs [3]error
	r.Tasks, errs[0] = m.Tasks(ctx)
	r.Workers, errs[1] = m.Workers(ctx)
	r.Categories, errs[2] = m.Categories(ctx)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return &r, nil
}
