package cluster

import "supercargo.dev/supercargo/internal/packing"

// Limits bound a group of machines in total: their number, what pods can use of them, and their price per hour. A nil
// field is unlimited; 0 or less permits no machine.
type Limits struct {
	Machines, MilliCPU, MemoryBytes, MicroDollarsPerHour *int64
}

// Less returns what remains of the limits after n machines of the given size (milli-CPU, bytes) and price
// (micro-dollars per hour). A nil limit stays nil; an exceeded limit becomes negative.
func (l Limits) Less(n int, size packing.Size, microDollarsPerHour int64) Limits {
	less := func(limit *int64, of int64) *int64 {
		if limit == nil {
			return nil
		}
		return new(*limit - int64(n)*of)
	}
	return Limits{
		Machines: less(l.Machines, 1), MilliCPU: less(l.MilliCPU, size.MilliCPU), MemoryBytes: less(l.MemoryBytes, size.MemoryBytes),
		MicroDollarsPerHour: less(l.MicroDollarsPerHour, microDollarsPerHour),
	}
}

// Allows reports whether the limits permit one more machine of the given size and price. A limit of 0 or less permits
// none.
func (l Limits) Allows(size packing.Size, microDollarsPerHour int64) bool {
	allows := func(limit *int64, of int64) bool { return limit == nil || *limit > 0 && of <= *limit }
	return allows(l.Machines, 1) && allows(l.MilliCPU, size.MilliCPU) && allows(l.MemoryBytes, size.MemoryBytes) &&
		allows(l.MicroDollarsPerHour, microDollarsPerHour)
}

// And returns the lower limit of each field; nil limits do not count.
func (l Limits) And(other Limits) Limits {
	return Limits{
		Machines: lower(l.Machines, other.Machines), MilliCPU: lower(l.MilliCPU, other.MilliCPU), MemoryBytes: lower(l.MemoryBytes, other.MemoryBytes),
		MicroDollarsPerHour: lower(l.MicroDollarsPerHour, other.MicroDollarsPerHour),
	}
}

func lower(a, b *int64) *int64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}
