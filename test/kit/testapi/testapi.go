// Package testapi reads and writes objects with the client of a test. An error ends the test. Requests are still
// sent while a test cleans up.
package testapi

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create creates objects, in order.
func Create(t testing.TB, c client.Writer, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		check(t, "create", o, c.Create(context.WithoutCancel(t.Context()), o))
	}
}

// Get reads an object by its key.
func Get(t testing.TB, c client.Reader, key client.ObjectKey, into client.Object) {
	t.Helper()
	if err := c.Get(context.WithoutCancel(t.Context()), key, into); err != nil {
		t.Fatalf("read %T %s: %v", into, key, err)
	}
}

// Refresh reads the current state of an object.
func Refresh(t testing.TB, c client.Reader, o client.Object) {
	t.Helper()
	Get(t, c, client.ObjectKeyFromObject(o), o)
}

// List lists objects.
func List(t testing.TB, c client.Reader, into client.ObjectList, options ...client.ListOption) {
	t.Helper()
	if err := c.List(context.WithoutCancel(t.Context()), into, options...); err != nil {
		t.Fatalf("list %T: %v", into, err)
	}
}

// Update replaces an object.
func Update(t testing.TB, c client.Writer, o client.Object) {
	t.Helper()
	check(t, "update", o, c.Update(context.WithoutCancel(t.Context()), o))
}

// UpdateStatus replaces the status of an object.
func UpdateStatus(t testing.TB, c client.StatusClient, o client.Object) {
	t.Helper()
	check(t, "update the status of", o, c.Status().Update(context.WithoutCancel(t.Context()), o))
}

// Patch patches an object.
func Patch(t testing.TB, c client.Writer, o client.Object, patch client.Patch, options ...client.PatchOption) {
	t.Helper()
	check(t, "patch", o, c.Patch(context.WithoutCancel(t.Context()), o, patch, options...))
}

// PatchStatus patches the status of an object.
func PatchStatus(t testing.TB, c client.StatusClient, o client.Object, patch client.Patch) {
	t.Helper()
	check(t, "patch the status of", o, c.Status().Patch(context.WithoutCancel(t.Context()), o, patch))
}

// Delete deletes an object.
func Delete(t testing.TB, c client.Writer, o client.Object, options ...client.DeleteOption) {
	t.Helper()
	check(t, "delete", o, c.Delete(context.WithoutCancel(t.Context()), o, options...))
}

func check(t testing.TB, what string, o client.Object, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s %T %s: %v", what, o, client.ObjectKeyFromObject(o), err)
	}
}
