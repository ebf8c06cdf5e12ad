// Package browser looks at the pages of lab/outcome and of the dashboard in a real browser. Its
// tests carry the build tag browser and need Chromium; they leave pictures of what
// they saw in dist/browser/.
package browser
