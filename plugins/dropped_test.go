//go:build !kubernetes1.36

package plugins_test

var dropped = []string{}
