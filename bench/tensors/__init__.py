"""What tensor mode costs above the bare execution, and what batching saves."""
