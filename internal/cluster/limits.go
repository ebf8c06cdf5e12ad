package cluster

import "supercargo.dev/supercargo/internal/packing"

// Limits bound machines, all together: how many there are, what pods can use of them, and
// their price per hour. What is nil is not bounded; 0 or less allows for no machine at all.
type Limits struct {
	Machines, MilliCPU, MemoryBytes, MicroDollarsPerHour *int64
}

// Less returns what remains of the limits after n machines of that size (milli-CPU, bytes) and price
// (micro-dollars per hour). An absent limit stays absent; one that is exceeded becomes negative.
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

// Allows reports whether the limits permit one more machine of that size and price. A limit of 0 or
// less permits none.
func (l Limits) Allows(size packing.Size, microDollarsPerHour int64) bool {
	allows := func(limit *int64, of int64) bool { return limit == nil || *limit > 0 && of <= *limit }
	return allows(l.Machines, 1) && allows(l.MilliCPU, size.MilliCPU) && allows(l.MemoryBytes, size.MemoryBytes) &&
		allows(l.MicroDollarsPerHour, microDollarsPerHour)
}

// And returns the lower of both limits in each respect; an absent one does not count.
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
