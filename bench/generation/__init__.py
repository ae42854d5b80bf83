"""What generation mode costs above the bare execution of its calls."""
