// Package text is empty. The folders below it write values for people and scripts: clip
// shortens what others wrote, dollars reads and writes prices, jsondoc writes documents as JSON.
package text
