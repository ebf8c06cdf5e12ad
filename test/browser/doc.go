// Package browser tests the pages of lab/outcome and of the dashboard in a real browser. Its tests have the
// build tag browser and need Chromium. They write pictures of the pages to dist/browser/.
package browser
