// Package text contains packages that write values for people and scripts: clip shortens external text, dollars parses
// and formats prices, jsondoc writes documents as JSON, and plural writes counts.
package text
