//go:build kubernetes1.37

package constraint_test

const resolvesNamespaces = true
