//! Executions: values, donation, staged inputs and failures. D3 to D8 name the rows of the
//! verification plan's device test.

#![allow(clippy::unwrap_used)] // helpers of tests

mod support;

use std::sync::Arc;

use tlaloc_pjrt::{Argument, Buffer, Client, Code, ElementType, Error, Executable, Shape, Staging};

fn inputs() -> Vec<f32> {
    (0..1024).map(|i| i as f32 * 0.5 - 256.0).collect()
}

/// x * x + x of [`inputs`]: all intermediate values are exact in f32.
fn expected() -> Vec<f32> {
    inputs().iter().map(|&x| (f64::from(x) * f64::from(x) + f64::from(x)) as f32).collect()
}

fn f32_shape(dims: &[i64]) -> Shape {
    Shape::new(ElementType::F32, dims).unwrap()
}

/// Writes every input.
fn write(staging: &mut Staging, values: &[&[u8]]) {
    let inputs = staging.inputs_mut().unwrap();
    assert_eq!(inputs.len(), values.len());
    inputs.zip(values).for_each(|(input, values)| input.copy_from_slice(values));
}

#[test]
fn d3_d4_a_view_gives_exact_values_and_is_left_alone() {
    let Some(client) = support::client() else { return };
    assert!(client.supports_views());
    let executable = support::square_plus(&client, 1024);
    let mut staging = Staging::new(&client, [f32_shape(&[1024])]).unwrap();
    write(&mut staging, &[&support::f32_bytes(&inputs())]);

    let mut pending = executable.execute([Argument::Staged(staging.input(0))]).unwrap();
    pending.wait().unwrap();
    let output = pending.take(0).unwrap();
    let bytes = output.host_bytes().unwrap().unwrap();
    assert_eq!(*bytes, *support::f32_bytes(&expected()));
    // The control: one value off by one is seen.
    let mut perturbed = expected();
    perturbed[17] += 1.0;
    assert_ne!(*bytes, *support::f32_bytes(&perturbed));
    let staged = staging.inputs_mut().unwrap().next().unwrap();
    assert_eq!(staged, support::f32_bytes(&inputs()));
}

#[test]
fn d5_host_memory_gives_exact_values() {
    let Some(client) = support::client() else { return };
    let executable = support::square_plus(&client, 1024);
    let input = client.upload(ElementType::F32, &[1024], &support::f32_bytes(&inputs())).unwrap();
    let mut pending = executable.execute([Argument::Keep(&input)]).unwrap();
    let output = pending.take(0).unwrap();
    // Queued behind the execution.
    let mut bytes = vec![0; 4096];
    output.copy_to_host(&mut bytes).unwrap();
    pending.wait().unwrap();
    assert_eq!(bytes, support::f32_bytes(&expected()));
    assert!(pending.take(0).is_none(), "taken twice");
    assert!(pending.take(1).is_none(), "no such output");
}

const STATE: usize = 262_144;

/// Runs 100 steps, step i writing i + 1 at index i, and counts those whose output has the address of
/// their input.
fn run_state(client: &Arc<Client>, executable: &Executable, donate: bool) -> (usize, Vec<f32>) {
    let mut state = client.zeros(ElementType::F32, &[STATE as i64]).unwrap();
    let mut same = 0;
    for i in 0..100_i32 {
        let index = client.upload(ElementType::I32, &[], &i.to_ne_bytes()).unwrap();
        let value = (i + 1) as f32;
        let value = client.upload(ElementType::F32, &[1], &value.to_ne_bytes()).unwrap();
        let address = state.device_address().unwrap();
        let input = if donate { Argument::Donate(&mut state) } else { Argument::Keep(&state) };
        let mut pending =
            executable.execute([input, Argument::Keep(&index), Argument::Keep(&value)]).unwrap();
        pending.wait().unwrap();
        let next = pending.take(0).unwrap();
        same += usize::from(next.device_address() == Some(address));
        if !donate {
            assert!(!state.is_deleted());
            let kept = support::f32_values(&state.host_bytes().unwrap().unwrap());
            assert_eq!(kept, state_after(i as usize), "the kept input changed");
        }
        state = next;
    }
    let values = support::f32_values(&state.host_bytes().unwrap().unwrap());
    (same, values)
}

fn state_after(steps: usize) -> Vec<f32> {
    (0..STATE).map(|i| if i < steps { (i + 1) as f32 } else { 0.0 }).collect()
}

#[test]
fn d6_a_donated_state_stays_in_place() {
    let Some(client) = support::client() else { return };
    let executable = support::state_step(&client, STATE, true);
    assert_eq!(executable.memory_stats().unwrap().alias, 1_048_576);
    let (same, values) = run_state(&client, &executable, true);
    assert_eq!(same, 100);
    assert_eq!(values, state_after(100));
}

#[test]
fn d7_a_donated_state_without_the_attribute_moves() {
    let Some(client) = support::client() else { return };
    let executable = support::state_step(&client, STATE, false);
    assert_eq!(executable.memory_stats().unwrap().alias, 0);
    let (same, values) = run_state(&client, &executable, true);
    assert_eq!(same, 0);
    assert_eq!(values, state_after(100));
}

#[test]
fn d8_a_kept_state_moves_and_is_unchanged() {
    let Some(client) = support::client() else { return };
    let executable = support::state_step(&client, STATE, true);
    assert_eq!(executable.memory_stats().unwrap().alias, 1_048_576);
    let (same, values) = run_state(&client, &executable, false);
    assert_eq!(same, 0);
    assert_eq!(values, state_after(100));
}

#[test]
fn a_donated_buffer_is_gone_and_says_so() {
    let Some(client) = support::client() else { return };
    let executable = support::state_step(&client, 8, true);
    let mut state = client.zeros(ElementType::F32, &[8]).unwrap();
    let index = client.zeros(ElementType::I32, &[]).unwrap();
    let value = client.zeros(ElementType::F32, &[1]).unwrap();
    assert!(!state.is_deleted());
    let mut pending = executable
        .execute([Argument::Donate(&mut state), Argument::Keep(&index), Argument::Keep(&value)])
        .unwrap();
    pending.wait().unwrap();
    assert!(state.is_deleted());
    assert_eq!(state.device_address(), None);
    assert!(state.host_bytes().is_err());
    assert!(state.copy_to_host(&mut [0; 32]).is_err());
    let again = executable.execute([
        Argument::Donate(&mut state),
        Argument::Keep(&index),
        Argument::Keep(&value),
    ]);
    assert!(again.is_err());
    assert!(!index.is_deleted() && !value.is_deleted());
}

#[test]
fn wrong_arguments_are_refused_and_take_nothing() {
    let Some(client) = support::client() else { return };
    let executable = support::state_step(&client, 8, true);
    let mut state = client.zeros(ElementType::F32, &[8]).unwrap();
    let index = client.zeros(ElementType::I32, &[]).unwrap();
    let value = client.zeros(ElementType::F32, &[1]).unwrap();
    let short = client.zeros(ElementType::F32, &[7]).unwrap();
    let run = |arguments: Vec<Argument<'_>>| -> Result<(), Error> {
        executable.execute(arguments)?.wait()
    };
    let (keep_index, keep_value) = (|| Argument::Keep(&index), || Argument::Keep(&value));
    for (case, result) in [
        ("none", run(vec![])),
        ("too few", run(vec![Argument::Donate(&mut state), keep_index()])),
        (
            "too many",
            run(vec![Argument::Donate(&mut state), keep_index(), keep_value(), keep_value()]),
        ),
        ("too small", run(vec![Argument::Keep(&short), keep_index(), keep_value()])),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.code(), Some(Code::InvalidArgument), "{case}: {error}");
    }
    assert!(!state.is_deleted());
    // The control: the right ones pass.
    run(vec![Argument::Donate(&mut state), keep_index(), keep_value()]).unwrap();
}

#[test]
fn an_argument_of_another_client_is_refused() {
    let Some(client) = support::client() else { return };
    let other = Client::shared(client.plugin(), 1, &tlaloc_pjrt::ClientOptions::default()).unwrap();
    let executable = support::square_plus(&client, 4);
    let foreign = other.zeros(ElementType::F32, &[4]).unwrap();
    let refused = executable.execute([Argument::Keep(&foreign)]);
    assert!(matches!(refused, Err(Error::ForeignArgument { index: 0 })));
}

#[test]
fn staged_inputs_cannot_be_written_under_an_execution() {
    let Some(client) = support::client() else { return };
    let executable = support::state_step(&client, 8, true);
    let shapes = [Shape::new(ElementType::I32, &[]).unwrap(), f32_shape(&[1])];
    let mut staging = Staging::new(&client, shapes).unwrap();
    let mut state = client.zeros(ElementType::F32, &[8]).unwrap();
    for i in 0..8_i32 {
        write(&mut staging, &[&i.to_ne_bytes(), &((i * i) as f32).to_ne_bytes()]);
        let mut pending = executable
            .execute([
                Argument::Donate(&mut state),
                Argument::Staged(staging.input(0)),
                Argument::Staged(staging.input(1)),
            ])
            .unwrap();
        assert!(matches!(staging.inputs_mut().map(drop), Err(Error::StagingInUse)));
        pending.wait().unwrap();
        staging.inputs_mut().map(drop).unwrap();
        state = pending.take(0).unwrap();
    }
    let values = support::f32_values(&state.host_bytes().unwrap().unwrap());
    assert_eq!(values, [0.0, 1.0, 4.0, 9.0, 16.0, 25.0, 36.0, 49.0]);

    // The memory outlives its owner for as long as an execution reads it.
    let pending = executable
        .execute([
            Argument::Donate(&mut state),
            Argument::Staged(staging.input(0)),
            Argument::Staged(staging.input(1)),
        ])
        .unwrap();
    drop(staging);
    drop(pending);
}

#[test]
fn steps_are_chained_without_waiting() {
    let Some(client) = support::client() else { return };
    let executable = support::state_step(&client, STATE, true);
    let mut state = client.zeros(ElementType::F32, &[STATE as i64]).unwrap();
    let scalars: Vec<(Buffer, Buffer)> = (0..20_i32)
        .map(|i| {
            let value = ((i + 1) as f32).to_ne_bytes();
            (
                client.upload(ElementType::I32, &[], &i.to_ne_bytes()).unwrap(),
                client.upload(ElementType::F32, &[1], &value).unwrap(),
            )
        })
        .collect();
    let mut all = Vec::new();
    for (index, value) in &scalars {
        let mut pending = executable
            .execute([Argument::Donate(&mut state), Argument::Keep(index), Argument::Keep(value)])
            .unwrap();
        state = pending.take(0).unwrap();
        all.push(pending);
    }
    for mut pending in all {
        pending.wait().unwrap();
    }
    assert_eq!(support::f32_values(&state.host_bytes().unwrap().unwrap()), state_after(20));
}

/// Adds up `n` scalars.
fn sum(client: &Arc<Client>, n: usize) -> Executable {
    let parameters: Vec<_> = (0..n).map(|i| format!("%a{i}: tensor<f32>")).collect();
    let mut text =
        format!("module {{ func.func public @main({}) -> tensor<f32> {{\n", parameters.join(", "));
    let mut total = "%a0".to_owned();
    for i in 1..n {
        text += &format!("%s{i} = stablehlo.add {total}, %a{i} : tensor<f32>\n");
        total = format!("%s{i}");
    }
    text += &format!("return {total} : tensor<f32> }} }}");
    client.compile(&text).unwrap()
}

#[test]
fn a_launch_takes_335_arguments() {
    let Some(client) = support::client() else { return };
    let executable = sum(&client, 335);
    let arguments: Vec<Buffer> = (0..335)
        .map(|i| client.upload(ElementType::F32, &[], &(i as f32).to_ne_bytes()).unwrap())
        .collect();
    let mut times = Vec::new();
    for _ in 0..200 {
        let start = std::time::Instant::now();
        let mut pending = executable.execute(arguments.iter().map(Argument::Keep)).unwrap();
        pending.wait().unwrap();
        times.push(start.elapsed());
        let total = pending.take(0).unwrap();
        let total = support::f32_values(&total.host_bytes().unwrap().unwrap());
        assert_eq!(total, [(0..335).sum::<i32>() as f32]);
    }
    times.sort();
    println!("launch and wait with 335 arguments: median {:?}", times[100]);
}

#[test]
fn two_threads_share_a_client_and_an_executable() {
    let Some(client) = support::client() else { return };
    let executable = support::square_plus(&client, 1024);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (client, executable) = (&client, executable.clone());
            scope.spawn(move || {
                for step in 0..200 {
                    let x = (thread * 1000 + step) as f32;
                    let bytes = support::f32_bytes(&[x; 1024]);
                    let input = client.upload(ElementType::F32, &[1024], &bytes).unwrap();
                    let mut pending = executable.execute([Argument::Keep(&input)]).unwrap();
                    pending.wait().unwrap();
                    let output = pending.take(0).unwrap();
                    let values = support::f32_values(&output.host_bytes().unwrap().unwrap());
                    assert_eq!(values, [x * x + x; 1024]);
                }
            });
        }
    });
}
