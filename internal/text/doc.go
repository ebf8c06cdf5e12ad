// Package text contains packages that write values for people and scripts: clip shortens external text, dollars parses
// and formats prices, and jsondoc writes documents as JSON.
package text
