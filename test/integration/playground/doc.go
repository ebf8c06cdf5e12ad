// Package playground tests lab/playground by starting real control planes: what runs in
// them, what they leave behind, and what becomes of a component that dies. Tests that start
// nothing stand beside the code.
package playground
